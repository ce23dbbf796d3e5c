"""Sessions of agents, sagas and workers of a recourse server: the standard library only, Python 3.9 or later. See README.md."""

from __future__ import annotations

import base64
import email.utils
import http.client
import ipaddress
import json
import logging
import os
import random
import secrets
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Literal, NoReturn, Optional, TypedDict

log = logging.getLogger("recourse")
PARKED = 75  # the exit code by which `recourse agent run` runs the process again once a decision has come
WAIT = 30  # seconds that a request waits for an end

# The views of the API. TestSDKTypes writes them from api/openapi.yaml.
Failure = TypedDict("Failure", {
    "code": str, "title": str, "detail": str,
}, total=False)
Reason = TypedDict("Reason", {
    "code": Literal["step_failed", "cancelled", "timeout", "budget_exhausted", "rejected", "stale", "operator"], "step": str, "error": str,
    "title": str, "detail": str,
}, total=False)
Residue = TypedDict("Residue", {
    "path": str, "why": str,
}, total=False)
Cost = TypedDict("Cost", {
    "currency": str, "spent": str, "reserved": str, "budget": str,
}, total=False)
Saga = TypedDict("Saga", {
    "id": str, "definition": str, "version": str,
    "status": Literal["running", "waiting", "paused", "compensating", "stuck", "succeeded", "compensated", "failed"], "reason": Reason, "input": Any,
    "output": Any, "labels": Dict[str, Any], "cost": Cost, "residual": List[Residue], "doubts": List[Residue], "open": List[str], "parent": str,
    "created_at": str, "ended_at": str, "seq": int,
}, total=False)
JournalRecord = TypedDict("JournalRecord", {
    "seq": int, "at": str, "kind": str, "path": str, "way": Literal["do", "undo"], "attempt": int, "generation": int, "key": str,
    "class": Literal["succeeded", "refused", "transient", "in_doubt", "held"], "node": str, "data": Any, "hash": str,
}, total=False)
Task = TypedDict("Task", {
    "id": str, "type": str, "saga": str, "step": str, "attempt": int, "way": Literal["do", "undo"], "key": str, "input": Any, "lease": str,
    "lease_until": str, "lease_ms": int, "deadline": str, "traceparent": str,
}, total=False)
Call = TypedDict("Call", {
    "path": str, "action": str, "status": Literal["running", "waiting", "succeeded", "failed", "in_doubt", "undone"], "replayed": bool, "key": str,
    "input": Any, "output": Any, "error": Failure, "cost": str, "waits_for": Literal["approval", "repeat", "doubt", "budget", "credentials"],
    "inbox": str, "undo": Literal["available", "none", "running", "done"], "unread": bool,
}, total=False)
OwnStep = TypedDict("OwnStep", {
    "id": str, "path": str, "status": Literal["running", "waiting", "succeeded", "failed", "in_doubt", "undone"], "attempt": int, "key": str,
    "effect": Literal["none", "undoable", "irreversible"], "input": Any, "output": Any, "error": Failure, "cost": str,
    "waits_for": Literal["approval", "doubt", "budget", "credentials"], "inbox": str, "undo": Literal["available", "none", "running", "done"],
    "unread": bool,
}, total=False)
SessionView = TypedDict("SessionView", {
    "id": str, "definition": str, "status": Literal["running", "waiting", "paused", "compensating", "stuck", "succeeded", "compensated", "failed"],
    "output": Any, "cost": Cost, "residual": List[Residue],
}, total=False)
Attached = TypedDict("Attached", {
    "life": int, "resumed": bool, "lease_ms": int, "llm": Dict[str, Any], "mcp": str,
}, total=False)
# The end of the views.


def _seconds(retry_after: str) -> float:
    """The seconds in a header Retry-After, which has a number of them or a date (RFC 9110, section 10.2.3)."""
    try:
        if retry_after.isascii() and retry_after.isdigit():
            seconds: float = int(retry_after[:9])
        else:
            seconds = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (TypeError, ValueError):  # it has neither
        return 0
    return max(0, min(seconds, 24 * 3600))  # a service that asks for a longer pause has an outage


class Problem(Exception):
    """The server refuses a request. `code` is stable, and `detail` says what to do: docs/errors.md lists the codes."""

    def __init__(self, status: int, body: Any, retry_after: str) -> None:
        body = body if isinstance(body, dict) else {}
        self.status, self.code, self.errors = status, str(body.get("type", "")).rpartition(":")[2], body.get("errors", [])
        self.title, self.detail = body.get("title") or http.client.responses.get(status, "?"), body.get("detail", "")
        self.retry_after = _seconds(retry_after)
        lasting = self.code in ("definition_unusable", "journal_unreadable")
        self.temporary = (status >= 500 and not lasting) or status in (408, 429) or self.code == "key_in_flight"
        super().__init__(f"{self.title}: {self.detail} (HTTP {status}, {self.code})")


class Unsuccessful(Exception):
    """A call or an own step has ended without success. `status` is failed (no effect), in_doubt or undone; `view` is the whole of it."""

    def __init__(self, view: Any) -> None:
        error = view.get("error") or {}
        self.view, self.status, self.code, self.detail = view, view["status"], error.get("code", ""), error.get("detail", "")
        super().__init__(f"{view['path']}: {self.status} {self.code} {error.get('title', '')} {self.detail}".rstrip())


class Waits(Exception):
    """A person has not decided within `patience`. If a `with session` ends by it, `recourse agent run` runs the process again later."""


class Abort(Exception):
    """Raise it in a `with session` to undo what the session has done."""


class Refused(Exception):
    """Raise it in an own step or a task to say that it certainly had no effect. After any other exception it is in doubt."""

    def __init__(self, code: str, detail: str, retryable: bool = False) -> None:
        super().__init__(detail)
        self.error, self.retryable = {"code": code, "detail": detail}, retryable


class Work:
    """What an own step or a task gets. `key` is the idempotency key for its requests; all its attempts have the same one."""

    def __init__(self, view: Any) -> None:
        self.view, self.key, self.attempt, self.input = view, view["key"], view["attempt"], view.get("input")
        self.cost: Optional[str] = None  # set it to what the work has cost, such as "0.02"
        self.lost = threading.Event()  # of a task: another worker may do it now, so stop
        self.unwanted = threading.Event()  # of a task: the saga does not need it any more


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # another host must not get the token
        return None


def _loopback(host: str) -> bool:  # no proxy reaches this machine under that name
    try:
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.9 does not know Z


class Client:
    """Requests to a server. While it is away or busy they are repeated with the same keys, so that nothing takes effect twice.

    `key` is an API key. After `give_up` seconds without an answer a request fails with its last error; by default it goes on.
    """

    def __init__(self, url: str = "", key: Optional[str] = None, give_up: float = float("inf")) -> None:
        self.url = (url or os.environ.get("RECOURSE_SERVER") or "http://127.0.0.1:8080").rstrip("/")
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("the URL of a server begins with http: or https:, such as http://127.0.0.1:8080")
        self._key, self._give_up = (os.environ.get("RECOURSE_API_KEY", "") if key is None else key).strip(), give_up
        here = _loopback(urllib.parse.urlsplit(self.url).hostname or "")
        self._opener = urllib.request.build_opener(_NoRedirects, *([urllib.request.ProxyHandler({})] if here else []))

    def _open(self, method: str, path: str, body: Any, headers: Dict[str, str], timeout: float) -> Any:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        auth = {"Authorization": "Bearer " + self._key} if self._key else {}
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **auth, **headers}, method=method)
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as refusal:
            with refusal:
                try:
                    said = json.loads(refusal.read())
                except ValueError:
                    said = None
                raise Problem(refusal.code, said, refusal.headers.get("Retry-After") or "") from None

    def request(self, method: str, path: str, body: Any = None, headers: Optional[Dict[str, str]] = None, *, stop: Optional[threading.Event] = None,
                give_up: Optional[float] = None, timeout: float = WAIT + 15) -> Any:
        """Repeats a request until it gets a response, or a refusal that a repetition does not change."""
        until, pause, in_flight = time.monotonic() + (self._give_up if give_up is None else give_up), 0.1, 0
        while True:
            try:
                with self._open(method, path, body, headers or {}, timeout) as answer:
                    said = answer.read()
                    return json.loads(said) if said and answer.headers.get_content_type() != "text/plain" else said.decode()
            except (OSError, http.client.HTTPException, json.JSONDecodeError, Problem) as error:
                failed, problem = error, error if isinstance(error, Problem) else None
            in_flight += problem is not None and problem.code == "key_in_flight"  # for minutes, if its server has died
            asked = problem.retry_after if problem else 0  # the server wants no request before that
            if problem and not problem.temporary or time.monotonic() + asked > until or stop and (in_flight > 3 or stop.is_set()):
                raise failed
            if pause == 0.2 or asked > 5:
                log.warning("trying again: %s %s: %s", method, path, failed)
            if stop and stop.wait(asked):
                raise failed
            time.sleep(random.uniform(pause / 2, pause) + (0 if stop else asked))
            pause = min(2 * pause, 5)

    def start(self, definition: str, input: Any = None, *, key: str = "", **more: Any) -> Saga:
        """Starts a saga; with the same `key`, the same saga. `more` has version, labels or budget."""
        body = {"definition": definition, **({} if input is None else {"input": input}), **more}
        return self.request("POST", "/v1/sagas", body, {"Idempotency-Key": key or str(uuid.uuid4())})

    def get(self, saga: str) -> Saga:
        return self.request("GET", f"/v1/sagas/{saga}")

    def wait(self, saga: str, timeout: float = float("inf")) -> Saga:
        """Waits for the end of a saga, for at most so many seconds, and returns the saga as it is then."""
        until = time.monotonic() + timeout
        while True:
            rest = min(WAIT, until - time.monotonic())
            view = self.request("GET", f"/v1/sagas/{saga}", None, {"Prefer": f"wait={rest:.0f}"} if rest >= 1 else {})
            if view["status"] in ("succeeded", "compensated", "failed") or rest <= 0:
                return view

    def watch(self, saga: str, after: int = 0) -> Iterator[JournalRecord]:
        """Yields the records of a saga's journal after the record `after` as they come, until its end."""
        until, pause = float("inf"), 0.1
        while True:
            retry_after = 0
            try:
                headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
                with self._open("GET", f"/v1/sagas/{saga}/journal", None, headers, 60) as events:
                    if events.status == 204:  # there are no more
                        return
                    until = float("inf")
                    for line in events:
                        if line.startswith(b"data:") and line.endswith(b"\n"):
                            record = json.loads(line[5:])
                            after, pause = record["seq"], 0.1
                            yield record
            except (OSError, http.client.HTTPException, Problem) as error:
                until = min(until, time.monotonic() + self._give_up)
                if time.monotonic() >= until or isinstance(error, Problem) and not error.temporary:
                    raise
                retry_after = error.retry_after if isinstance(error, Problem) else 0
                log.info("connecting again: %s", error)
            time.sleep(max(random.uniform(pause / 2, pause), retry_after))
            pause = min(2 * pause, 5)

    def open(self, name: str, actions: List[str], **more: Any) -> Session:
        """Opens a session, or finds that of `key`, and attaches to it. `more` has key, input, budget and other fields of docs/agents.md."""
        body = {"name": name, "actions": actions, **more}
        view = self.request("POST", "/v1/sessions", body, {} if "key" in more else {"Idempotency-Key": str(uuid.uuid4())})
        return self.attach(view["id"])

    def attach(self, session: str, patience: float = 32) -> Session:
        """Attaches this process to a session. If another one is attached, it waits for so many seconds for the end of its lease."""
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")  # repeated with the same secret, it is the same life
        body, until = {"holder": f"{socket.gethostname()}:{os.getpid()}", "secret": secret}, time.monotonic() + patience
        attach: Callable[..., Attached] = lambda **more: self.request("POST", f"/v1/sessions/{session}/attach", body, **more)
        while True:
            began = time.monotonic()
            try:
                life = attach()
                break
            except Problem as problem:
                if problem.code != "session_held" or time.monotonic() > until:
                    raise
            time.sleep(1)
        client = Client(self.url, "rst_" + session.replace("-", "") + "_" + secret, self._give_up)
        return Session(client, session, life["life"], attach, life["lease_ms"] / 1000, began)

    def work(self, types: List[str], do: Callable[[Work], Any], *, parallel: int = 1, stop: Optional[threading.Event] = None) -> None:
        """Does the work of `task` steps until `stop` is set and the tasks at hand have ended. `do` returns the output of a task."""
        stop, refusals = stop or threading.Event(), []
        claim = {"types": types, "worker": f"{socket.gethostname()}:{os.getpid()}", "wait": "10s"}

        def loop(ended: threading.Event) -> None:
            while not stop.is_set():
                try:  # all tries of a claim have one key, so that the tasks in a lost response are not lost
                    tasks = self.request("POST", "/v1/tasks/claim", claim, {"Idempotency-Key": str(uuid.uuid4())}, stop=stop)
                    for task in tasks["data"] if tasks else []:
                        self._work(task, do)
                except BaseException as error:  # the end of this thread alone, as by sys.exit, would show nowhere
                    if isinstance(error, Problem) and not error.temporary or not isinstance(error, (Problem, OSError, http.client.HTTPException)):
                        refusals.append(error)
                        stop.set()
            ended.set()

        # Ctrl-C during Thread.join makes Python forget that the thread runs.
        ends = [threading.Event() for _ in range(parallel)]
        threads = [threading.Thread(target=loop, args=(ended,)) for ended in ends]
        try:
            for thread in threads:
                thread.start()
            for ended in ends:
                ended.wait()
        finally:  # after Ctrl-C, too, the tasks at hand end, and no others begin
            stop.set()
            for thread, ended in zip(threads, ends):
                if thread.ident:
                    ended.wait()
        if refusals:
            raise refusals[0]

    def _work(self, task: Task, do: Callable[[Work], Any]) -> None:
        work, done, at, lease = Work(task), threading.Event(), f"/v1/tasks/{task['id']}", task["lease_ms"] / 1000
        # left is the time from the end of a lease to the deadline, by the server's clock.
        left = lambda until: (_time(task["deadline"]) - _time(until)).total_seconds()
        renewed = time.monotonic()
        deadline = renewed + lease + left(task["lease_until"])
        until = min(renewed + lease, deadline)

        def beat(give_up: float) -> None:
            nonlocal renewed, deadline, until
            began = time.monotonic()
            said = self.request("POST", at + "/heartbeat", {"lease": task["lease"]}, stop=done, give_up=give_up, timeout=max(min(lease / 3, until - began), 0.01))
            deadline = min(deadline, began + lease + left(said["lease_until"]))
            renewed, until = began, min(began + lease, deadline)
            if said["cancel"]:
                work.unwanted.set()

        try:  # the response to the claim may have come late, and another worker may have the task
            beat(lease)
        except (OSError, http.client.HTTPException, Problem) as error:
            log.error("the work of task %s does not begin: %s", task["id"], error)
            return

        def keep() -> None:
            while not done.wait(max(renewed + lease / 3 - time.monotonic(), lease / 10)) and not work.lost.is_set():
                try:
                    beat(0)
                except (OSError, http.client.HTTPException, Problem) as error:
                    if isinstance(error, Problem) and not error.temporary:
                        return work.lost.set()

        def watch() -> None:  # a heartbeat may hang until after the end of the lease
            while not done.wait(max(until - time.monotonic(), 0)):
                if time.monotonic() >= until:
                    return work.lost.set()

        for thread in keep, watch:
            threading.Thread(target=thread, daemon=True).start()
        ends: Optional[BaseException] = None  # what ends the thread, once the end of the task is reported
        try:
            if work.unwanted.is_set():
                raise Refused("unwanted", "the saga no longer needs the work", retryable=True)
            what, end = "complete", {"output": do(work)}
            json.dumps(end, allow_nan=False)
        except Refused as error:
            what, end = "fail", {"error": error.error, **({"retryable": True} if error.retryable else {})}
        except BaseException as error:
            log.exception("the task %s is in doubt", task["id"])
            what, end = "fail", {"error": {"code": "task_failed", "detail": repr(error)}, "in_doubt": True}
            ends = None if isinstance(error, Exception) else error
        end.update({"lease": task["lease"], **({"cost": work.cost} if work.cost is not None else {})})
        try:
            self.request("POST", f"{at}/{what}", end, stop=work.lost)
        except Exception as error:  # the lease is lost, or the result is refused
            log.error("the end of task %s is not recorded: its lease will end: %s", task["id"], error)
        finally:
            done.set()
        if ends:
            raise ends


class Session:
    """A session that this process is attached to. Several threads may use it. `with session` commits it at the end of the block."""

    def __init__(self, client: Client, id: str, life: int, attach: Optional[Callable[..., Any]] = None, lease: float = 0, began: float = 0) -> None:
        self.id, self.life, self._client, self._attach, self._quit = id, life, client, attach, threading.Event()
        # The session has ended, or another process has followed, or may follow: no heartbeat had a response for a whole lease.
        self.over = threading.Event()
        if attach:
            threading.Thread(target=self._beat, args=(lease, began + lease), daemon=True).start()

    def get(self) -> Dict[str, Any]:
        """The session, with its `input`, `status`, `cost` and `residual`."""
        return self._request("GET", "")

    def call(self, action: str, input: Any = None, *, once: str = "", again: int = 0, patience: float = float("inf")) -> Call:
        """Calls an action, and waits for its end. A call that was made before has its recorded result.

        Calls with the same `once` are the same call; without it, docs/agents.md has the rules. Never let a model choose it. `patience` is
        how many seconds a person has to decide. Errors: Unsuccessful, Waits, Problem.
        """
        body = {"action": action, "input": input, "wait": f"{max(1, min(WAIT, patience)):.0f}s", **({"id": once} if once else {}), **({"again": again} if again else {})}
        replayed, until = None, None
        while True:
            view = self._request("POST", "/calls", body)  # repeated, it is the same call
            replayed = view["replayed"] = view["replayed"] if replayed is None else replayed
            if view["status"] == "succeeded":
                return view
            if view["status"] not in ("running", "waiting"):
                raise Unsuccessful(view)
            if "waits_for" in view:  # what the service needs after a decision does not count
                until = until or time.monotonic() + patience
                if time.monotonic() >= until:
                    raise Waits(f"{view['path']} waits for {view['waits_for']}")

    def step(self, id: str, do: Callable[[Work], Any], *, input: Any = None, undo: Any = None, effect: str = "", patience: float = float("inf"), **more: Any) -> Any:
        """Does an own step unless it is done, and returns its output as the journal has it.

        `undo` is {"use": action, "with": input}, or a function that makes it from the output. `effect` is none, undoable or irreversible;
        by default undoable with an `undo`, and irreversible without. `more` has in_doubt (retry or ask: what follows if the process dies
        during the step) and reserve. Errors: Unsuccessful, Waits, Problem, and what `do` raises, unless it is Refused.
        """
        begin, until = {"id": id, "input": input, "effect": effect or ("undoable" if undo else "irreversible"), **more}, time.monotonic() + patience
        if undo and not callable(undo):
            begin["compensate"] = undo
        while True:
            try:
                begun = self._request("POST", "/steps", begin, {"Idempotency-Key": str(uuid.uuid4())})
            except Problem as problem:
                if problem.code != "in_doubt":
                    raise
                if time.monotonic() >= until:
                    raise Waits(problem.detail) from None
                time.sleep(1)
                continue
            if begun["decision"] == "replay":
                if begun["status"] == "succeeded":
                    return begun.get("output")
                raise Unsuccessful(begun)
            work, failed = Work(begun), None
            try:
                end: Dict[str, Any] = {"status": "succeeded", "output": do(work)}
                if callable(undo):
                    end["compensate"] = undo(end["output"])
                json.dumps(end, allow_nan=False)
            except Refused as error:
                failed, end = error, {"status": "failed", "error": error.error}
            except Exception as error:
                failed, end = error, {"status": "in_doubt", "error": repr(error)}
            end.update({"attempt": work.attempt, **({"cost": work.cost} if work.cost is not None else {})})
            view = self._request("POST", f"/steps/{id}/finish", end)
            if view["status"] == "succeeded":
                return view.get("output")
            if end["status"] == "in_doubt" and failed:
                raise failed
            if view["status"] == "failed":
                raise Unsuccessful(view) from failed  # otherwise an earlier attempt is in doubt

    def undo(self, path: str, patience: float = float("inf")) -> None:
        """Undoes one call, such as refund[0], or own step, such as own.report, unless it is undone. The session goes on."""
        part, until = f"/steps/{path[4:]}" if path.startswith("own.") else f"/calls/{urllib.parse.quote(path, safe='')}", time.monotonic() + patience
        try:
            self._request("POST", part + "/undo", {})
        except Problem as problem:
            if problem.code != "nothing_to_undo" or self._request("GET", part)["undo"] == "none":
                raise
        while self._request("GET", part)["undo"] != "done":
            if time.monotonic() >= until:
                raise Waits(f"{path} is not undone yet")
            time.sleep(0.2)

    def commit(self, output: Any = None) -> None:
        """Ends the session once its calls have ended. Only a later undo of all of it can follow, within `undo_within`."""
        while True:
            try:
                self._request("POST", "/commit", {} if output is None else {"output": output})
                return self._quit.set()
            except Problem as problem:
                if problem.code != "calls_open":
                    raise
            time.sleep(0.5)

    def abort(self, reason: str = "") -> None:
        """Ends the session, and undoes its effects in the reverse order."""
        self._request("POST", "/abort", {"reason": reason} if reason else {})
        self._quit.set()

    def park(self) -> NoReturn:
        """Ends this process. `recourse agent run` runs it again once something that a person decides now has ended."""
        self.detach()
        sys.exit(PARKED)

    def detach(self) -> None:
        """Lets another process attach to the session, which goes on. Under `recourse agent run` it does nothing."""
        if self._attach and not self._quit.is_set():
            self._quit.set()
            try:
                self._client.request("POST", f"/v1/sessions/{self.id}/detach", {}, give_up=0, timeout=5)
            except (OSError, http.client.HTTPException, Problem) as error:
                log.info("attached until the lease ends: %s", error)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> bool:
        if error is None and not self._quit.is_set():
            self.commit()
        elif isinstance(error, Abort):
            self.abort(str(error))
        elif isinstance(error, Waits) and not self._attach:
            self.park()
        self.detach()
        return isinstance(error, Abort)

    def _request(self, method: str, part: str, body: Any = None, headers: Optional[Dict[str, str]] = None, **more: Any) -> Any:
        try:
            return self._client.request(method, f"/v1/sessions/{self.id}{part}", body, headers, **more)
        except Problem as problem:
            if problem.code != "superseded" or not self._attach or self._quit.is_set():
                raise
        self._attach(**more)  # the lease has ended. A Problem says that another process has followed
        return self._client.request(method, f"/v1/sessions/{self.id}{part}", body, headers, **more)

    def _beat(self, lease: float, until: float) -> None:
        # After a lease without a response it goes on: the session is this process's again if no other has followed.
        most: Callable[[float], float] = lambda longest: longest if self.over.is_set() else min(longest, max(until - time.monotonic(), 0.01))
        pause = lease / 3
        while not self._quit.wait(most(pause)):
            began, pause = time.monotonic(), lease / 10  # until the next try, if this one fails
            if began >= until:
                self.over.set()
            try:
                if self._request("POST", "/heartbeat", {}, give_up=0, timeout=most(lease / 3))["stop"]:
                    return self.over.set()
                until, pause = began + lease, lease / 3
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                log.info("a heartbeat had no response: %s", error)
            except Exception as error:
                if self._quit.is_set() or isinstance(error, Problem) and error.temporary:
                    continue
                log.error("the session is lost: %s", error)
                return self.over.set()


def attach() -> Session:
    """The session of this process, which `recourse agent run` has started."""
    env = os.environ
    if "RECOURSE_SESSION" not in env:
        raise RuntimeError("there is no session: run this process by `recourse agent run`, or open a session by Client.open")
    return Session(Client(env["RECOURSE_URL"], env["RECOURSE_TOKEN"]), env["RECOURSE_SESSION"], int(env["RECOURSE_LIFE"]))
