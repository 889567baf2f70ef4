"""A client of redis-py that does what it is told.

    peer.py --redis HOST:PORT --client redis-py

It reads one command a line, its words between tabs, and answers each, in their order, with a line of JSON:

    ID VERB NAME [WORD...]
    {"id": 1, "result": "4ba2..."}
    {"id": 2, "error": "LockNotOwnedError", "message": "..."}

The first line of all is {"id": 0, "version": VERSION}. The end of the input ends the program at once, and nothing is
released. Times are in milliseconds:

    try NAME TTL            its token, or null where somebody has the lock; a TTL of 0 is none at all
    wait NAME TTL WITHIN    the same, by the client's own waiting
    adopt NAME TTL TOKEN    from now on the token is the one that this program holds the lock with
    extend NAME TTL         to this TTL
    release NAME
    mine NAME               whether the lock is held with its token
    count NAME TTL KEY N PAUSE
                            N times: waits for the lock, reads a number at KEY, pauses, writes the next one, releases
"""

import json
import os
import queue
import sys
import threading
import time

import redis
from redis.lock import Lock

LONG = 60


class Locks:
    """What the verbs do, with an object of the client for each name."""

    def __init__(self, client):
        self.client = client
        self.held = {}

    def run(self, verb, name, words):
        return getattr(self, "do_" + verb)(name, *words)

    def do_try(self, name, ttl):
        return self.acquired(name, self.made(name, ttl), blocking=False)

    def do_wait(self, name, ttl, within):
        return self.acquired(name, self.made(name, ttl), blocking_timeout=int(within) / 1000)

    def do_adopt(self, name, ttl, token):
        self.held[name] = self.made(name, ttl)
        self.held[name].local.token = token.encode()
        return True

    def do_extend(self, name, ttl):
        return self.held[name].extend(int(ttl) / 1000, replace_ttl=True)

    def do_release(self, name):
        # It forgets its token when it tries, and a second release would not ask the server.
        lock = self.held[name]
        token = lock.local.token
        try:
            lock.release()
        finally:
            lock.local.token = token
        return True

    def do_mine(self, name):
        return self.held[name].owned()

    def do_count(self, name, ttl, key, times, pause):
        for _ in range(int(times)):
            lock = self.made(name, ttl)
            if not lock.acquire(blocking_timeout=LONG):
                raise TimeoutError(name)
            number = int(self.client.get(key) or 0)
            time.sleep(int(pause) / 1000)
            self.client.set(key, number + 1)
            lock.release()
        return True

    def made(self, name, ttl):
        timeout = int(ttl) / 1000 if int(ttl) else None
        return Lock(self.client, name, timeout=timeout, thread_local=False)

    def acquired(self, name, lock, **how):
        if not lock.acquire(**how):
            return None
        self.held[name] = lock
        return lock.local.token.decode()


def say(line):
    print(json.dumps(line), flush=True)


def work(locks, commands):
    while True:
        number, verb, name, *words = commands.get()
        answer = {"id": int(number)}
        try:
            answer["result"] = locks.run(verb, name, words)
        except Exception as error:
            answer["error"] = type(error).__name__
            answer["message"] = str(error)
        say(answer)


def main():
    arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    if arguments["--client"] != "redis-py":
        sys.exit("there is redis-py alone")
    host, port = arguments["--redis"].rsplit(":", 1)
    client = redis.Redis(host=host, port=int(port))
    client.ping()
    say({"id": 0, "version": redis.__version__})
    commands = queue.Queue()
    # One that waits for a lock need not be waited for.
    threading.Thread(target=work, args=(Locks(client), commands), daemon=True).start()
    for line in sys.stdin:
        commands.put(line.rstrip("\n").split("\t"))
    os._exit(0)


main()
