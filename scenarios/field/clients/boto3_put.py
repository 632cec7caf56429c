#!/usr/bin/env python3
"""Uploads with boto3: a new client for every upload, or one client for all with --reuse.

Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY). boto3 adds
`Expect: 100-continue` to every PutObject by itself and then waits for the server, which costs a round
trip before the body. This script takes the header away: what is compared here is connection reuse alone.
--expect leaves it in.
"""

import argparse
import sys
import time

try:
    import boto3
    from botocore.config import Config
except ImportError:
    sys.exit("boto3_put.py needs the Python package `boto3`")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", required=True, help="such as http://origin.example:9000")
    parser.add_argument("--bucket", required=True, help="an existing bucket")
    parser.add_argument("--file_input", required=True, help="the file to upload")
    parser.add_argument("--range", type=int, default=5, help="number of uploads (default: 5)")
    parser.add_argument("--reuse", action="store_true", help="one client for all uploads")
    parser.add_argument("--expect", action="store_true", help="leave boto3's Expect header in")
    parser.add_argument("--verify", action="store_true", help="read every object back and list it")
    return parser.parse_args()


def client(options):
    session = boto3.Session(region_name="us-east-1")
    made = session.client(
        "s3",
        endpoint_url=options.endpoint,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )
    if not options.expect:
        made.meta.events.register_last("before-call.s3", without_expect)
    return made


def without_expect(params, **_):
    params["headers"].pop("Expect", None)


def main():
    options = arguments()
    with open(options.file_input, "rb") as file:
        body = file.read()
    s3 = client(options)

    for index in range(1, options.range + 1):
        if not options.reuse and index > 1:
            s3.close()
            s3 = client(options)
        key = f"boto3/{index:06}"
        began = time.monotonic()
        s3.put_object(Bucket=options.bucket, Key=key, Body=body)
        cost_ms = (time.monotonic() - began) * 1000
        print(f"upload {options.file_input}, upload cost {cost_ms}", flush=True)
        if options.verify:
            check(s3, options.bucket, key, body)


def check(s3, bucket, key, body):
    """Ends the script where the store holds something else than was sent."""
    if s3.get_object(Bucket=bucket, Key=key)["Body"].read() != body:
        sys.exit(f"{key} came back different")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"]
    if [(entry["Key"], entry["Size"]) for entry in listed] != [(key, len(body))]:
        sys.exit(f"{key} is listed as {listed}")


if __name__ == "__main__":
    main()
