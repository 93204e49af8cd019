#!/bin/sh
# Finds facts by words. Usage: memory-search.sh [-k NUMBER] WORDS...
set -eu

number=5
if [ "${1:-}" = "-k" ]; then
    number="${2:?-k needs a number}"
    shift 2
fi
if [ "$#" -eq 0 ]; then
    echo "usage: memory-search.sh [-k NUMBER] WORDS..." >&2
    exit 2
fi
exec nexus memory recall "$*" -k "$number" --json
