#!/usr/bin/env python3
"""Small requests in turn on one connection, alone or beside an upload on another: interactive.py [--beside] [--count N]

The lab says in AWS_ENDPOINT_URL where the arm's first relay listens. Beside an upload, the requests begin two seconds after
it, and what the program takes on top of them is told to nobody: the lab times the whole run. So each run also prints the
median and the slowest exchange, in milliseconds, on standard output.
"""

import argparse
import http.client
import os
import statistics
import sys
import threading
import time
import urllib.parse

LENGTH = 1 << 29
PIECE = bytes(1 << 16)


def upload(place, under_way, enough):
    """Sends a form's file until `enough` is set; what the server says to a body cut short is nobody's business."""
    connection = http.client.HTTPConnection(place)
    try:
        connection.putrequest("POST", "/upload/files")
        connection.putheader("Content-Type", "multipart/form-data; boundary=0")
        connection.putheader("Content-Length", str(LENGTH))
        connection.endheaders(b'--0\r\nContent-Disposition: form-data; name="file"\r\n\r\n')
        sent = 0
        while sent < LENGTH - len(PIECE) and not enough.is_set():
            connection.send(PIECE)
            sent += len(PIECE)
            under_way.set()
    except OSError as error:
        print(f"the upload ended early: {error}", file=sys.stderr)
    finally:
        connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", action="store_true", help="beside an upload")
    parser.add_argument("--count", type=int, default=60, help="exchanges (default: 60)")
    options = parser.parse_args()
    place = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    under_way, enough = threading.Event(), threading.Event()
    if options.beside:
        threading.Thread(target=upload, args=(place, under_way, enough), daemon=True).start()
        if not under_way.wait(20):
            sys.exit("interactive.py: the upload did not begin within 20 s")
        time.sleep(2)
    connection = http.client.HTTPConnection(place)
    connection.connect()
    took = []
    for _ in range(options.count):
        began = time.monotonic()
        connection.request("HEAD", "/")
        connection.getresponse().read()
        took.append((time.monotonic() - began) * 1e3)
    enough.set()
    print(f"median {statistics.median(took):.1f} ms, slowest {max(took):.1f} ms", flush=True)


if __name__ == "__main__":
    main()
