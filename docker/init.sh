#!/usr/bin/env bash
# Prepares the stack of docker-compose.yaml. Running it again changes nothing.
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

echo "init: the buckets"
python -c 'from pipestream.objects.buckets import ensure_buckets
from pipestream.settings import load_settings
ensure_buckets(load_settings())'

echo "init: sample documents"
pipestream samples

echo "init: topics of the graphs"
shopt -s nullglob
for graph in "$PIPESTREAM_GRAPHS_FOLDER"/*.{yaml,yml}; do
    code=0
    pipestream graph apply "$graph" || code=$?
    # 2: the graph is broken, or still in design. The others are applied and Airflow starts, which shows what is wrong.
    # 1: a server does not answer. Then nothing else would work either.
    case $code in
        0) ;;
        2) echo "init: $graph is NOT applied, see above" ;;
        *) exit $code ;;
    esac
done
