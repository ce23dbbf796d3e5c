"""The program by which internal/test/examples tests the SDK against a server: python3 program.py scenario|killed.

The programs of all SDKs print the same lines, which are in sdk/testdata/scenario.txt.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import recourse  # noqa: E402

WORLD = os.environ["WORLD"]  # the mock services


def say(*what):
    print(*(part if isinstance(part, str) else json.dumps(part, separators=(",", ":")) for part in what), flush=True)


def post(path, body, key):
    """Sends a request to the mock services with an idempotency key, as an own step does."""
    sent = urllib.request.Request(WORLD + path, json.dumps(body).encode(), {"Content-Type": "application/json", "Idempotency-Key": key})
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)["id"]


def refund_of(charge):
    return {"use": "refund-charge", "with": {"charge": charge}}


def problem(what, do):
    """Prints the code of the problem, or the status of the failure, that do raises."""
    try:
        do()
    except recourse.Problem as refusal:
        say(what, refusal.status, refusal.code, bool(refusal.detail))
    except recourse.Unsuccessful as failure:
        say(what, failure.status, failure.code)
    except recourse.Waits:
        say(what, "waits")
    except RuntimeError as error:
        say(what, str(error))
    else:
        say(what, "no problem")


def scenario():
    client = recourse.Client(os.environ["RECOURSE_SERVER"])
    calls(client)
    steps(client)
    held(client)
    sagas(client)


def calls(client):
    session = client.open("sdk", ["refund", "refund-charge"], key=os.environ["KEY"] + "-calls", lease="5s", input={"n": 1})
    say("life", session.life, session.get()["input"]["n"])
    first = session.call("refund", {"order": "o-1", "amount": 100})
    again = session.call("refund", {"amount": 100, "order": "o-1"})
    say("call", first["path"], first["status"], again["path"], again["replayed"], first["key"] == again["key"])
    say("once", session.call("refund-charge", {"charge": post("/pay/charges", {"amount": 5}, "of-" + first["key"])}, once="a")["path"])
    problem("failed", lambda: session.call("refund-charge", {"charge": "none"}))
    problem("bad input", lambda: session.call("refund", {"order": 1}))
    problem("no action", lambda: session.call("refunds", {}))
    problem("approval", lambda: session.call("refund", {"order": "o-2", "amount": 20000}, patience=0))
    session.undo(first["path"])
    session.detach()
    session = client.attach(session.id)
    try:  # the first answer is that it is undone, unless that is lost
        session.call("refund", {"order": "o-1", "amount": 100})
    except recourse.Unsuccessful as failure:
        assert failure.status == "undone"
    say("life", session.life, session.call("refund", {"order": "o-1", "amount": 100})["path"])
    session.abort("enough")
    say("ended", client.wait(session.id)["status"])
    problem("aborted", lambda: session.call("refund", {"order": "o-3", "amount": 100}))


def steps(client):
    done = []

    def charge(work):
        done.append(work.attempt)
        work.cost = "0.02"
        return {"charge": post("/pay/charges", {"amount": 7}, work.key)}

    def broken(work):
        done.append(work.attempt)
        keys.append(work.key)
        if work.attempt == 1:
            raise RuntimeError("broken")
        return {"same key": keys[-1] == keys[-2]}

    def refused(work):
        done.append(work.attempt)
        raise recourse.Refused("no_such_page", "there is no page 7")

    keys = []
    with client.open("sdk", ["refund", "refund-charge"], key=os.environ["KEY"] + "-steps", lease="5s", budget="5.00 EUR") as session:
        once = session.step("charge", charge, undo=lambda output: refund_of(output["charge"]))
        twice = session.step("charge", charge, undo=lambda output: refund_of(output["charge"]))
        say("step", once == twice, done)
        problem("broken", lambda: session.step("sum", broken, effect="none"))
        say("done", session.step("sum", broken, effect="none"), done)
        problem("refused", lambda: session.step("page", refused))
        problem("refused", lambda: session.step("page", refused))
        problem("other input", lambda: session.step("page", refused, input=7))
        say("done", done)
        problem("doubt", lambda: session.step("mail", broken))
        problem("doubt", lambda: session.step("mail", broken, patience=0))
        session.undo("own.charge")
        problem("undone", lambda: session.step("charge", charge, undo=lambda output: refund_of(output["charge"])))
        raise recourse.Abort("a person has to decide")
    say("spent", session.get()["cost"]["spent"])
    with client.open("sdk", ["refund"], key=os.environ["KEY"] + "-commit", lease="5s") as session:
        session.commit({"refunds": [session.step("none", lambda work: 1, effect="none")]})
    view = client.wait(session.id)
    say("committed", view["status"], view["output"])


def held(client):
    session = client.open("sdk", ["refund"], key=os.environ["KEY"] + "-held", lease="5s")
    time.sleep(6)  # heartbeats keep it
    problem("held", lambda: client.attach(session.id, patience=0))
    session.abort()
    refused = []
    for url, key in (("htp://127.0.0.1", ""), (client.url, "a\nb")):
        try:
            recourse.Client(url, key).get("x")
        except ValueError as error:
            refused.append(bool(str(error)))
    say("unsendable", refused)


def sagas(client):
    def double(work):
        n = work.input["n"]
        if n == 1:
            raise recourse.Refused("odd", "1 is odd")
        if n == 2 and work.attempt == 1:
            raise recourse.Refused("later", "not now", retryable=True)
        if n == 4 and work.attempt == 1:
            raise RuntimeError("broken")
        work.cost = "0.01"
        return {"double": 2 * n}

    stop = threading.Event()
    worker = threading.Thread(target=client.work, args=(["sdk.double"], double), kwargs={"parallel": 2, "stop": stop}, daemon=True)
    worker.start()
    for n in (1, 2, 3, 4):
        key = f"{os.environ['KEY']}-{n}"
        saga = client.start("sdk-double", {"n": n}, key=key)
        view = client.wait(saga["id"])
        records = [record["kind"] for record in client.watch(saga["id"])]
        say("saga", n, view["status"], view.get("output", {}).get("double"), view.get("reason", {}).get("error"), view["cost"]["spent"], records[0], records[-1])
        say("same", client.start("sdk-double", {"n": n}, key=key)["id"] == saga["id"], client.get(saga["id"])["seq"] == len(records))
    stop.set()
    worker.join()
    problem("no saga", lambda: client.start("none"))
    waiting = client.start("sdk-double", {"n": 5}, key=os.environ["KEY"] + "-5")
    say("waiting", client.wait(waiting["id"], timeout=1)["status"])


def killed():
    """Is killed in the middle of a step, after it, and in the middle of a step that a person decides about."""

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def charge(work):
        charge = post("/pay/charges", {"amount": 7}, work.key)
        if session.life == 1:
            die()
        return charge

    def mail(work):
        post("/mail/send", {"to": "ann@shop.example"}, work.key)  # it ignores the key
        die()

    with recourse.attach() as session:
        say(f"life {session.life}: begins as process {os.getpid()}")
        session.step("charge", charge, in_doubt="retry", undo=lambda charge: refund_of(charge))
        session.call("refund", {"order": "o-1", "amount": 100})
        if session.life == 2:
            die()
        session.step("mail", mail, patience=0)
        say("done")


if __name__ == "__main__":
    {"scenario": scenario, "killed": killed}[sys.argv[1]]()
