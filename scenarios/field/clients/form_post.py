#!/usr/bin/env python3
"""The upload script of field case C, rebuilt from its description.

Without --session it is the report's `oss.py`: every upload is a bare `requests.post`, so every upload
opens a connection and closes it. With --session it is `oss-muti.py`: one `requests.Session` and one
connection for all. The report's script also encrypts the file; here the file is sent as it is.

The request has two parts, `data` (JSON) and `file`. `requests` builds the body in memory, sends a
Content-Length, no `Expect`, and `http.client` below it sends the head by itself before the body.
"""

import argparse
import json
import os
import sys
import time

try:
    import requests
except ImportError:
    sys.exit("form_post.py needs the Python package `requests`")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="scheme and host, such as http://origin.example")
    parser.add_argument("--file_input", required=True, help="the file to upload")
    parser.add_argument("--range", type=int, default=5, help="number of uploads (default: 5)")
    parser.add_argument("--region", default="us", help="sent in the part `data` (default: us)")
    parser.add_argument("--session", action="store_true", help="reuse one connection")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per upload (default: 60)")
    return parser.parse_args()


def main():
    options = arguments()
    with open(options.file_input, "rb") as file:
        transfer_data = file.read()
    upload_data = json.dumps({"name": os.path.basename(options.file_input), "region": options.region})
    # `requests.post` is a session of its own, made and closed around every call.
    post = requests.Session().post if options.session else requests.post

    for _ in range(options.range):
        began = time.monotonic()
        response = post(
            f"{options.url}/upload/files",
            files={
                "data": ("", upload_data, "application/json"),
                "file": transfer_data,
            },
            timeout=options.timeout,
        )
        cost_ms = (time.monotonic() - began) * 1000
        response.raise_for_status()
        print(f"upload {options.file_input}, upload cost {cost_ms}", flush=True)


if __name__ == "__main__":
    main()
