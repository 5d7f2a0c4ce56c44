#!/usr/bin/env bash
# Prepares the stack of docker-compose.yaml: everything here can be repeated and changes nothing then.
set -euo pipefail

echo "init: Airflow's database"
airflow db migrate

echo "init: the admin's password"
python - <<'PYTHON'
import json, os, pathlib

file = pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
file.write_text(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))
file.chmod(0o600)
PYTHON

echo "init: the pool of the drains"
airflow pools set pipestream_drains "$PIPESTREAM_MAX_LEASES" "Pipestream drains that may run at once"

echo "init: the bucket"
python - <<'PYTHON'
import boto3
from botocore.exceptions import ClientError
from urllib.parse import urlsplit

from pipestream.settings import load_settings

settings = load_settings()
client = boto3.client(
    "s3",
    endpoint_url=settings.s3_endpoint,
    region_name=settings.s3_region,
    aws_access_key_id=settings.s3_access_key.get_secret_value(),
    aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
)
for uri in (settings.store_uri, settings.ledger_uri):
    try:
        client.create_bucket(Bucket=urlsplit(uri).netloc)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise
PYTHON

echo "init: topics of the graphs"
for graph in /opt/pipestream/dags/graphs/*.yaml; do
    pipestream graph apply "$graph"
done
