#!/usr/bin/env python3
"""An agent that refunds orders and tells the customers. It uses the SDK in sdk/python, which needs only the standard library.

    recourse agent run --name refund --key ticket-17 --actions actions --input @ticket.json -- python3 agent.py

It may be killed at any time. The next process starts from the beginning and makes the same calls again: the server answers those that were
made before from the session's journal, so no order is refunded twice, and no mail is sent twice.

The function `model` stands for a language model: it gets what has happened so far, and decides on the next call. Its answers are not in the
journal. A real model may decide otherwise in the next life; the `once` of the actions holds even then.

SLOW is the number of seconds that the model thinks before each decision.
"""

import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk/python"))  # an installed package needs no path
import recourse  # noqa: E402

SLOW = float(os.environ.get("SLOW", "0"))
ABORT = 76  # the exit code by which `recourse agent run` aborts the session


def say(*what):
    print("life", os.environ["RECOURSE_LIFE"] + ":", *what, flush=True)


def call(session, action, arguments):
    """Calls an action, and waits for its end. The result is a dict with `status`, and `output` or `error`, which a model understands."""
    try:
        return session.call(action, arguments, patience=0)
    except recourse.Waits as waits:  # a person decides, perhaps after days; then this process is run again
        say("parked:", waits)
        session.park()
    except recourse.Unsuccessful as failure:
        return failure.view
    except recourse.Problem as refusal:
        say(action, "is refused:", refusal.code, refusal.detail)
        if refusal.code == "superseded":  # another process of this agent has followed, and this one must not do anything
            raise
        return {"status": "refused", "error": {"code": refusal.code}}


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
    session, task, history = recourse.attach(), json.loads(os.environ["RECOURSE_INPUT"]), []
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
        result = call(session, action, arguments)
        history.append((action, arguments, result))
        say(action, arguments["order"], result["status"], "(from the journal)" if result.get("replayed") else "")


if __name__ == "__main__":
    main()
