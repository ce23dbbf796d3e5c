// What the page does beyond links and forms: it stays up to date, says how long ago things were, and knows some keys.
// Without this script everything works; a reload shows what is new.
"use strict";

const main = () => document.getElementById("main");

// Live: the server sends <main> again whenever it has changed.
let stream = null;
let again = 0; // the timer of the next attempt
let failed = 0; // attempts in a row
function follow() {
  if (stream || document.hidden || !main().hasAttribute("data-live")) return;
  stream = new EventSource("/live?page=" + encodeURIComponent(location.pathname + location.search));
  // The browser itself connects again after a lost connection, but not after a response that is no
  // stream, such as a proxy's.
  stream.onerror = (e) => {
    if (e.target !== stream || stream.readyState !== EventSource.CLOSED) return;
    rest();
    again = setTimeout(follow, Math.min(2 ** failed++, 60) * 1000);
  };
  stream.onmessage = (e) => {
    failed = 0;
    const next = new DOMParser().parseFromString(e.data, "text/html").getElementById("main");
    if (!next) return;
    morph(main(), next);
    ages();
    document.dispatchEvent(new Event("recourse:changed"));
    if (!next.hasAttribute("data-live")) rest();
  };
}
function rest() {
  clearTimeout(again);
  if (stream) stream.close();
  stream = null;
}
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
addEventListener("pagehide", rest);
addEventListener("pageshow", follow);

// morph makes a into b and leaves alone what the reader has done: focus, what is typed, what is open.
function morph(a, b) {
  if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName || a.id !== b.id) return a.replaceWith(b);
  if (a.nodeType !== Node.ELEMENT_NODE) {
    if (a.data !== b.data) a.data = b.data;
    return;
  }
  if (a.matches("form[data-touched]")) return;
  for (const { name } of [...a.attributes]) if (!b.hasAttribute(name) && !mine(a, name)) a.removeAttribute(name);
  for (const { name, value } of [...b.attributes]) if (a.getAttribute(name) !== value && !mine(a, name)) a.setAttribute(name, value);
  const ids = new Set([...b.children].map((c) => c.id));
  for (const c of [...a.children]) if (c.id && !ids.has(c.id)) c.remove(); // first: what stays need not move, and keeps the focus
  const known = new Map([...a.children].filter((c) => c.id).map((c) => [c.id, c]));
  let at = a.firstChild;
  for (const child of [...b.childNodes]) {
    const same = child.id && known.get(child.id);
    for (let next; same && at && at !== same && at.nodeType === Node.TEXT_NODE; at = next) {
      next = at.nextSibling;
      at.remove();
    }
    if (same && same !== at) a.insertBefore(same, at);
    if (same) at = same;
    if (!at || (!same && ((at.id && at.id !== child.id) || (child.id && !same)))) {
      a.insertBefore(child, at);
      continue;
    }
    const next = at.nextSibling;
    morph(at, child);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
// mine are attributes that the reader or this script has set, and a form's key, by which the server
// knows that it was sent before.
const mine = (e, name) => (e.id === "signal-key" && name === "value") || (e.nodeName === "DETAILS" && name === "open") || name === "data-touched" || name === "title" && e.nodeName === "TIME";
document.addEventListener("input", (e) => e.target.form && e.target.form.setAttribute("data-touched", ""));

// Ages: <time data-ago> reads "3 min ago", with the full time as its title.
function ages() {
  for (const t of document.querySelectorAll("time[data-ago]")) {
    const at = Date.parse(t.dateTime);
    const text = ago((Date.now() - at) / 1000);
    if (t.textContent !== text) t.textContent = text;
    t.title = new Date(at).toLocaleString();
  }
}
function ago(s) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const abs = Math.abs(s);
  const [unit, size] = units.find(([, size]) => abs >= size) || ["s", 1];
  // Rounded ahead: 48 hours less a second are not "in 1 d".
  const n = (s < 0 ? Math.round(abs / size) : Math.floor(abs / size)) + " " + unit;
  return s < -0.5 ? "in " + n : abs < 1 ? "now" : n + " ago";
}
setInterval(ages, 1000);

// Keys.
let prefix = "";
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog[open]")) return;
  const key = prefix + e.key;
  prefix = "";
  const go = /^g(.)$/.exec(key) && document.querySelector(`[data-go="${CSS.escape(key[1])}"]`);
  if (go) return go.click();
  const act = { g: () => (prefix = "g"), "/": search, j: () => step(1), k: () => step(-1), "?": () => document.getElementById("keys").showModal() }[key];
  if (!act) return;
  e.preventDefault();
  act();
});
function search() {
  const field = document.querySelector("[data-search]");
  if (field) field.focus();
  else location.href = "/";
}
function step(by) {
  const rows = [...document.querySelectorAll("a.row, .row > summary")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)].focus();
}

// A story is read from its end, and grows there; next to it the definition shows where the saga is.
let atEnd = true;
document.addEventListener("scroll", (e) => {
  if (e.target.className === "story") atEnd = e.target.scrollTop + e.target.clientHeight >= e.target.scrollHeight - 8;
}, true);
function place() {
  const story = document.querySelector(".story");
  if (story && atEnd) story.scrollTop = story.scrollHeight;
}
document.addEventListener("recourse:changed", place);
function current() {
  const now = document.querySelector(".source .now, .source .wrong");
  if (now) now.parentNode.scrollTop = now.offsetTop - now.parentNode.offsetTop - 80;
}

// A link to something closed opens it.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.nodeName === "DETAILS") target.open = true;
}
addEventListener("hashchange", reveal);

for (const e of document.querySelectorAll(".keys")) e.hidden = false;
ages();
place();
current();
follow();
reveal();
