"""What each S3 client does through a relay. Every check returns nothing, or raises; a client that cannot do
something leaves its method out."""

import hashlib
import json
import os
import ssl
import subprocess
import urllib.request

PART = 5 * 1024 * 1024
PARTS = 12
ACCESS, SECRET, REGION = "longhaul-access", "longhaul-secret", "us-east-1"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def same(got, wanted, what):
    if digest(got) != digest(wanted):
        raise AssertionError(f"{what}: {len(got)} bytes are not the {len(wanted)} that were sent")


class Client:
    """A client, an endpoint and a directory to work in."""

    # Whether objects are encrypted on the way: tags and checksums are then those of what is stored.
    sealed = False

    def __init__(self, tools, endpoint, ca, bucket, directory, bodies):
        self.tools, self.endpoint, self.ca, self.bucket = tools, endpoint, ca, bucket
        self.directory, self.small, self.large = directory, bodies[0], bodies[1]
        self.directory.mkdir(parents=True, exist_ok=True)
        self.secure = endpoint.startswith("https:")

    def file(self, name, data=None):
        path = self.directory / name
        if data is not None:
            path.write_bytes(data)
        return path

    def run(self, *words, text=False):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            **self.environment(),
        }
        done = subprocess.run(
            [str(word) for word in words], env=environment, capture_output=True, timeout=300
        )
        if done.returncode:
            raise AssertionError(f"{words[0]} ended with {done.returncode}: {done.stderr[-600:]!r}")
        return done.stdout.decode() if text else done.stdout

    def environment(self):
        return {"AWS_CA_BUNDLE": str(self.ca)} if self.secure else {}

    def fetch(self, url):
        context = ssl.create_default_context(cafile=self.ca) if self.secure else None
        with urllib.request.urlopen(url, context=context, timeout=60) as response:
            return response.read()

    def checks(self):
        names = ["put", "get", "range", "multipart", "presigned", "form", "checksum"]
        return {name: getattr(self, name, None) for name in names}


class Boto3(Client):
    def client(self):
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            verify=str(self.ca) if self.secure else None,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def put(self):
        self.client().put_object(Bucket=self.bucket, Key="boto3/small", Body=self.small)

    def get(self):
        got = self.client().get_object(Bucket=self.bucket, Key="boto3/small")["Body"].read()
        same(got, self.small, "get")

    def range(self):
        answer = self.client().get_object(Bucket=self.bucket, Key="boto3/small", Range="bytes=1000-200999")
        same(answer["Body"].read(), self.small[1000:201000], "range")

    def multipart(self):
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4)
        client, path = self.client(), self.file("large", self.large)
        client.upload_file(str(path), self.bucket, "boto3/large", Config=config)
        etag = client.head_object(Bucket=self.bucket, Key="boto3/large")["ETag"]
        assert self.sealed or etag.strip('"').endswith(f"-{PARTS}"), f"{etag} is not of {PARTS} parts"
        back = self.file("back")
        client.download_file(self.bucket, "boto3/large", str(back), Config=config)
        same(back.read_bytes(), self.large, "multipart")

    def presigned(self):
        client = self.client()
        parameters = {"Bucket": self.bucket, "Key": "boto3/presigned"}
        url = client.generate_presigned_url("put_object", parameters, 300)
        context = ssl.create_default_context(cafile=self.ca) if self.secure else None
        request = urllib.request.Request(url, data=self.small, method="PUT")
        urllib.request.urlopen(request, context=context, timeout=60).read()
        url = client.generate_presigned_url("get_object", parameters, 300)
        same(self.fetch(url), self.small, "presigned")

    def form(self):
        client = self.client()
        wishes = {"success_action_status": "201", "x-amz-meta-origin": "form"}
        conditions = [{name: value} for name, value in wishes.items()] + [["content-length-range", 1, len(self.large)]]
        form = client.generate_presigned_post(self.bucket, "boto3/form", wishes, conditions, 300)
        status, answer = self.post(form, "form", self.large)
        assert status == 201 and b"<Key>boto3/form</Key>" in answer, f"{status}: {answer!r}"
        got = client.get_object(Bucket=self.bucket, Key="boto3/form")
        assert got["Metadata"] == {"origin": "form"}, got["Metadata"]
        same(got["Body"].read(), self.large, "form")
        status, answer = self.post(form, "form", self.large + b"more")
        assert status == 400 and b"EntityTooLarge" in answer, f"{status}: {answer!r}"

    def post(self, form, name, file):
        """Posts a file as a browser does; status and body of the answer."""
        words = ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}"]
        words += ["--cacert", self.ca] if self.secure else []
        for field, value in form["fields"].items():
            words += ["--form-string", f"{field}={value}"]
        words += ["--form", f"file=@{self.file('posted', file)};filename={name}", form["url"]]
        body, _, status = self.run(*words).rpartition(b"\n")
        return int(status), body

    def checksum(self):
        client = self.client()
        for algorithm in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]:
            key = f"boto3/{algorithm}"
            client.put_object(Bucket=self.bucket, Key=key, Body=self.small, ChecksumAlgorithm=algorithm)
            answer = client.get_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
            same(answer["Body"].read(), self.small, algorithm)
            assert self.sealed or answer.get(f"Checksum{algorithm}"), f"no {algorithm} came back"


class AwsCli(Client):
    def aws(self, *words, text=False):
        config = self.file(
            "config",
            b"[default]\ns3 =\n  multipart_chunksize = 5MB\n  multipart_threshold = 5MB\n  addressing_style = path\n  signature_version = s3v4\n",
        )
        os.environ["AWS_CONFIG_FILE"] = str(config)
        return self.run(self.tools / "aws", "--endpoint-url", self.endpoint, *words, text=text)

    def environment(self):
        return {**super().environment(), "AWS_CONFIG_FILE": str(self.directory / "config")}

    def put(self):
        self.aws("s3", "cp", self.file("small", self.small), f"s3://{self.bucket}/aws/small")

    def get(self):
        self.aws("s3", "cp", f"s3://{self.bucket}/aws/small", self.file("back"))
        same(self.file("back").read_bytes(), self.small, "get")

    def range(self):
        self.aws(
            "s3api", "get-object", "--bucket", self.bucket, "--key", "aws/small",
            "--range", "bytes=1000-200999", self.file("part"),
        )
        same(self.file("part").read_bytes(), self.small[1000:201000], "range")

    def multipart(self):
        self.aws("s3", "cp", self.file("large", self.large), f"s3://{self.bucket}/aws/large")
        head = self.aws("s3api", "head-object", "--bucket", self.bucket, "--key", "aws/large", text=True)
        etag = json.loads(head)["ETag"]
        assert self.sealed or etag.strip('"').endswith(f"-{PARTS}"), f"{etag} is not of {PARTS} parts"
        self.aws("s3", "cp", f"s3://{self.bucket}/aws/large", self.file("back"))
        same(self.file("back").read_bytes(), self.large, "multipart")

    def presigned(self):
        url = self.aws("s3", "presign", f"s3://{self.bucket}/aws/small", text=True).strip()
        same(self.fetch(url), self.small, "presigned")

    def checksum(self):
        for algorithm in ["CRC32", "SHA256", "CRC64NVME"]:
            self.aws(
                "s3api", "put-object", "--bucket", self.bucket, "--key", f"aws/{algorithm}",
                "--checksum-algorithm", algorithm, "--body", self.file("small", self.small),
            )
            self.aws(
                "s3api", "get-object", "--bucket", self.bucket, "--key", f"aws/{algorithm}",
                "--checksum-mode", "ENABLED", self.file("back"),
            )
            same(self.file("back").read_bytes(), self.small, algorithm)


class Rclone(Client):
    def environment(self):
        # Its own SDK reads AWS_CA_BUNDLE and then refuses --ca-cert.
        return {}

    def rclone(self, *words, text=False):
        self.file("rclone.conf", b"")
        words = [
            "rclone", "--config", self.directory / "rclone.conf", "--s3-provider", "Other",
            "--s3-endpoint", self.endpoint, "--s3-env-auth", "--s3-region", REGION,
            "--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi", "--retries", "1", *words,
        ]
        if self.secure:
            words[1:1] = ["--ca-cert", self.ca]
        return self.run(*words, text=text)

    def where(self, key):
        return f":s3:{self.bucket}/rclone/{key}"

    def put(self):
        self.rclone("copyto", self.file("small", self.small), self.where("small"))

    def get(self):
        same(self.rclone("cat", self.where("small")), self.small, "get")

    def range(self):
        got = self.rclone("cat", "--offset", "1000", "--count", "200000", self.where("small"))
        same(got, self.small[1000:201000], "range")

    def multipart(self):
        self.rclone("copyto", self.file("large", self.large), self.where("large"))
        self.rclone("copyto", self.where("large"), self.file("back"))
        same(self.file("back").read_bytes(), self.large, "multipart")

    def presigned(self):
        url = self.rclone("link", "--expire", "5m", self.where("small"), text=True).strip()
        same(self.fetch(url), self.small, "presigned")

    def checksum(self):
        wanted = hashlib.md5(self.small).hexdigest()
        said = self.rclone("md5sum", self.where("small"), text=True).split()[0]
        assert self.sealed or said == wanted, f"{said} is not {wanted}"


class S3cmd(Client):
    def s3cmd(self, *words, text=False):
        host = self.endpoint.split("://")[1]
        words = [
            self.tools / "s3cmd", "--no-progress", "--access_key", ACCESS, "--secret_key", SECRET,
            "--host", host, "--host-bucket", host, "--multipart-chunk-size-mb", "5", *words,
        ]
        words[1:1] = ["--ssl", "--ca-certs", self.ca] if self.secure else ["--no-ssl"]
        return self.run(*words, text=text)

    def put(self):
        self.s3cmd("put", self.file("small", self.small), f"s3://{self.bucket}/s3cmd/small")

    def get(self):
        self.s3cmd("get", "--force", f"s3://{self.bucket}/s3cmd/small", self.file("back"))
        same(self.file("back").read_bytes(), self.small, "get")

    def multipart(self):
        self.s3cmd("put", self.file("large", self.large), f"s3://{self.bucket}/s3cmd/large")
        self.s3cmd("get", "--force", f"s3://{self.bucket}/s3cmd/large", self.file("back"))
        same(self.file("back").read_bytes(), self.large, "multipart")

    def checksum(self):
        said = self.s3cmd("info", f"s3://{self.bucket}/s3cmd/small", text=True)
        assert self.sealed or hashlib.md5(self.small).hexdigest() in said, said


class S5cmd(Client):
    def environment(self):
        # Go's list of authorities, in place of the system's.
        return {"SSL_CERT_FILE": str(self.ca)} if self.secure else {}

    def s5cmd(self, *words, text=False):
        return self.run(self.tools / "s5cmd", "--endpoint-url", self.endpoint, "--retry-count", "0", *words, text=text)

    def put(self):
        self.s5cmd("cp", self.file("small", self.small), f"s3://{self.bucket}/s5cmd/small")

    def get(self):
        same(self.s5cmd("cat", f"s3://{self.bucket}/s5cmd/small"), self.small, "get")

    def multipart(self):
        self.s5cmd("cp", "--part-size", "5", self.file("large", self.large), f"s3://{self.bucket}/s5cmd/large")
        self.s5cmd("cp", "--part-size", "5", f"s3://{self.bucket}/s5cmd/large", self.file("back"))
        same(self.file("back").read_bytes(), self.large, "multipart")

    def presigned(self):
        url = self.s5cmd("presign", "--expire", "5m", f"s3://{self.bucket}/s5cmd/small", text=True).strip()
        same(self.fetch(url), self.small, "presigned")


ALL = {"boto3": Boto3, "aws-cli": AwsCli, "rclone": Rclone, "s3cmd": S3cmd, "s5cmd": S5cmd}
