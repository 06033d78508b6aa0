#!/bin/sh
# Build the service as the Dockerfile does, and try it: a wheel, an environment with nothing else,
# one start. Usage: deploy/build.sh FOLDER, which must not exist. PYTHON chooses the interpreter.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: deploy/build.sh FOLDER}
mkdir -p "$folder"

"${PYTHON:-python3}" -m venv "$folder/build"
"$folder/build/bin/pip" install -q build
"$folder/build/bin/python" -m build -q --wheel --outdir "$folder/dist" "$here"

"${PYTHON:-python3}" -m venv "$folder/venv"
wheel=$(ls "$folder"/dist/dirad-*.whl)
"$folder/venv/bin/pip" install -q "$wheel[postgres,parquet]"

"$folder/venv/bin/dirad" serve --store "$folder/store" --port 0 2>"$folder/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 300); do
    address=$(sed -n 's/.*at \(http:[^ ]*\).*/\1/p' "$folder/log")
    if [ -n "$address" ] || ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 1
done
if [ -z "$address" ]; then
    echo "The service did not start:" >&2
    cat "$folder/log" >&2
    exit 1
fi
"$folder/venv/bin/python" "$here/deploy/healthy.py" "$address"
kill "$server"
wait "$server" || true
trap - EXIT
echo "Built $wheel; the service starts, answers and ends."
