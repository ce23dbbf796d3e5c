#!/usr/bin/env python3
"""Counts the words of pages: a worker in Python that uses only the standard library.

RECOURSE_SERVER is the server's URL, RECOURSE_API_KEY its key. SLOW is the number of seconds that each page takes, to see heartbeats.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

SERVER = os.environ.get("RECOURSE_SERVER", "http://127.0.0.1:8080").rstrip("/")
API_KEY = os.environ.get("RECOURSE_API_KEY", "")
SLOW = float(os.environ.get("SLOW", "0"))

stopping = threading.Event()


class Failed(Exception):
    """The work was not done. Without a flag, it surely had no effect, and a retry would not help."""

    def __init__(self, code, detail, retryable=False, in_doubt=False):
        super().__init__(detail)
        self.said = {"error": {"code": code, "detail": detail}}
        if retryable:
            self.said["retryable"] = True
        if in_doubt:
            self.said["in_doubt"] = True


def post(path, body, timeout, key=None):
    """Sends a request; returns the status and the response. After an OSError, the result is unknown."""
    headers = {"Content-Type": "application/json"}
    if API_KEY:
        headers["Authorization"] = "Bearer " + API_KEY
    if key:
        headers["Idempotency-Key"] = key
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.loads(refusal.read() or b"null")


def insist(path, body, timeout, give_up, key=None):
    """Repeats a request while the server is unavailable or busy, until give_up is set.

    If a key stays in flight, its server has died: the next try has a new key.
    """
    pause, in_flight = 0.1, 0
    while True:
        try:
            status, answer = post(path, body, timeout, key)
            taken = (answer or {}).get("type", "").endswith(":key_in_flight")
            if status < 500 and status != 429 and not taken:
                return status, answer
            problem = answer
            in_flight += taken
            if in_flight > 5:
                key, in_flight = str(uuid.uuid4()), 0
        except (OSError, ValueError) as error:
            problem = error
        print("trying again:", path, problem, file=sys.stderr, flush=True)
        if give_up.wait(pause):
            return 0, None
        pause = min(2 * pause, 5)


class Keeper(threading.Thread):
    """Sends a heartbeat every third of the lease, until it is stopped or the lease is lost."""

    def __init__(self, task):
        super().__init__(daemon=True)
        self.task, self.lease = task, task["lease_ms"] / 1000
        self.done, self.lost, self.unwanted = threading.Event(), threading.Event(), threading.Event()

    def run(self):
        until = time.monotonic() + self.lease
        while not self.done.wait(self.lease / 3):
            began = time.monotonic()
            try:
                status, answer = post(f"/v1/tasks/{self.task['id']}/heartbeat", {"lease": self.task["lease"]}, self.lease / 3)
            except (OSError, ValueError):
                status, answer = 503, None
            if status == 200:
                until = began + self.lease
                if answer["cancel"]:
                    self.unwanted.set()
            elif status < 500 and status != 429 or time.monotonic() >= until:
                self.lost.set()
                return


def count(task, keeper):
    """The work itself."""
    text = task["input"].get("text")
    if not isinstance(text, str):
        raise Failed("bad_input", "text is missing")
    for _ in range(int(SLOW * 10)):
        if keeper.lost.wait(0.1):
            return None
        if keeper.unwanted.is_set():
            raise Failed("stopped", "the saga did not want it any more")
    words = len(text.split())
    if words == 0:
        raise Failed("too_short", "there is nothing to read")
    return {"words": words}


def work(task):
    keeper = Keeper(task)
    keeper.start()
    try:
        what, body = "complete", {"output": count(task, keeper)}
    except Failed as failed:
        what, body = "fail", failed.said
    except Exception as error:  # the work may have had an effect
        what, body = "fail", Failed("task_failed", repr(error), in_doubt=True).said
    if keeper.lost.is_set():
        print("lost", task["id"], file=sys.stderr, flush=True)
        return
    body["lease"] = task["lease"]
    status, answer = insist(f"/v1/tasks/{task['id']}/{what}", body, 15, keeper.lost)
    keeper.done.set()
    print(what, task["step"], "of", task["saga"], "attempt", task["attempt"], status, flush=True)
    if status != 200:
        print("not taken:", answer, file=sys.stderr, flush=True)


def main():
    for sign in (signal.SIGINT, signal.SIGTERM):  # the task in flight is completed first
        signal.signal(sign, lambda *_: stopping.set())
    claim = {"types": ["page.count"], "worker": f"words.py:{os.getpid()}", "wait": "20s"}
    while not stopping.is_set():
        # All tries of a claim have the same key, so a lost response does not lose tasks.
        status, answer = insist("/v1/tasks/claim", claim, 40, stopping, str(uuid.uuid4()))
        if status == 200:
            for task in answer["data"]:
                work(task)
        elif status not in (0, 204):
            sys.exit(f"the server refuses: {answer}")


if __name__ == "__main__":
    main()
