#!/usr/bin/env python3
"""An agent that refunds orders and tells the customers. It uses only the standard library.

    recourse agent run --name refund --key ticket-17 --actions actions --input @ticket.json -- python3 agent.py

It may be killed at any time. The next process starts from the beginning and makes the same calls again: the server answers those that were
made before from the session's journal, so no order is refunded twice, and no mail is sent twice.

The function `model` stands for a language model: it gets what has happened so far, and decides on the next call. Its answers are not in the
journal. A real model may decide otherwise in the next life; the `once` of the actions holds even then.

SLOW is the number of seconds that the model thinks before each decision.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ["RECOURSE_URL"] + "/v1/sessions/" + os.environ["RECOURSE_SESSION"]
TOKEN = os.environ["RECOURSE_TOKEN"]  # never print it
SLOW = float(os.environ.get("SLOW", "0"))

FAILED, PARKED, ABORT = 1, 75, 76  # exit codes that `recourse agent run` understands; 0 commits the session


def say(*what):
    print("life", os.environ["RECOURSE_LIFE"] + ":", *what, flush=True)


def request(method, path, body=None):
    """Sends a request until the server answers it. Repeating a call is safe: two calls with the same input are the same call."""
    pause = 0.1
    while True:
        data = None if body is None else json.dumps(body).encode()
        sent = urllib.request.Request(URL + path, data, {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(sent, timeout=40) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            with refusal:
                problem = json.loads(refusal.read() or b"{}")
            if refusal.code != 429 and refusal.code < 500:
                return refusal.code, problem
        except (OSError, ValueError):  # the server is away, or the connection has ended early: is it restarting?
            pass
        time.sleep(pause)
        pause = min(2 * pause, 2)


def call(action, arguments):
    """Calls an action, and waits for its end. The result is a dict with `status`, and `output` or `error`."""
    status, answer = request("POST", "/calls", {"action": action, "input": arguments, "wait": "10s"})
    while status == 202:
        if answer.get("waits_for"):  # a person decides, perhaps after days; then this process is run again
            say("parked:", answer["path"], "waits for", answer["waits_for"])
            sys.exit(PARKED)
        path = urllib.parse.quote(answer["path"], safe="")
        status, answer = request("GET", "/calls/" + path + "?wait=10s")
    if status == 200:
        return answer
    code = answer.get("type", "").rpartition(":")[2]
    say(action, "is refused:", code, answer.get("detail", ""))
    if code == "superseded":  # another process of this agent has followed, and this one must not do anything
        sys.exit(FAILED)
    return {"status": "refused", "error": {"code": code}}


def model(task, history):
    """Decides on the next call: a pair of an action and its input, "done" or "give up". history has the calls and their results."""
    done = {(action, arguments["order"]): result for action, arguments, result in history}
    for action, fields in (("look", ["order"]), ("refund", ["order", "amount"]), ("mail", ["order", "to"])):
        for order in task["orders"]:
            result = done.get((action, order["order"]))
            if result is None:
                return action, {name: order[name] for name in fields}
            if action == "refund" and result["status"] != "succeeded":
                return "give up"
            if action == "refund" and not done["look", order["order"]]["output"]["returnable"]:
                return "give up"  # it notices too late, as models do: the refunds have to be undone
    return "done"


def main():
    task, history = json.loads(os.environ["RECOURSE_INPUT"]), []
    say("begins as process", os.getpid())
    while True:
        time.sleep(SLOW)
        decision = model(task, history)
        if decision == "done":
            return say("done")
        if decision == "give up":
            say("gives up")
            sys.exit(ABORT)
        action, arguments = decision
        result = call(action, arguments)
        history.append((action, arguments, result))
        say(action, arguments["order"], result["status"], "(from the journal)" if result.get("replayed") else "")


if __name__ == "__main__":
    main()
