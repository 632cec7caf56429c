"""Processes that a bench starts, which end with it."""

import contextlib
import queue
import subprocess
import tempfile
import threading


class Failure(Exception):
    """What a user can do something about."""


class Process(subprocess.Popen):
    """One that talks in lines. They are read as they come, so that it never waits for a full pipe."""

    def listen(self, stream, log):
        self.log, self.said, self.lines = log, [], queue.SimpleQueue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            self.lines.put(line)
        self.lines.put(None)

    def until(self, word):
        """The next line with this word in it."""
        while (line := self.lines.get()) is not None:
            self.said.append(line)
            if word in line:
                return line
        self.log.seek(0)
        words = ("".join(self.said) + self.log.read()).strip()[-500:]
        raise Failure(f"`{' '.join(self.args)}` ended before it said {word!r}: {words}")


class Processes(contextlib.ExitStack):
    """Processes that end with the block, the last first."""

    def start(self, *command, within=(), until=None, feed=None, stream="stdout", **more):
        """Starts `command` by the words of `within`, gives it the line `feed`, and waits until it says `until`."""
        log = self.enter_context(tempfile.TemporaryFile("w+"))
        pipes = {"stdout": log, "stderr": log, stream: subprocess.PIPE}
        process = Process(
            [*map(str, within), *map(str, command)],
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL, text=True, **pipes, **more,
        )
        self.callback(end, process)
        process.listen(getattr(process, stream), log)
        if feed:
            process.stdin.write(feed + "\n")
            process.stdin.flush()
        if until:
            process.until(until)
        return process


def end(process):
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
