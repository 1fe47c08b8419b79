#!/bin/sh
# Make a virtual environment with the first Python >= 3.12 found: $PYTHON, PATH, pyenv's versions, uv.
# LeRobot 0.6 needs 3.12; 3.12 is tried first because every wheel it needs exists for it.
set -eu
venv=${1:?usage: make_venv.sh FOLDER}

good() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

if [ -x "$venv/bin/python" ] && good "$venv/bin/python"; then exit 0; fi

for candidate in ${PYTHON:-} python3.12 python3.13 python3.14 python3 python \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[3-9]*/bin/python; do
    if good "$candidate"; then
        echo "Using $("$candidate" -c 'import sys; print(sys.executable, sys.version.split()[0])')"
        exec "$candidate" -m venv "$venv"
    fi
done
if command -v uv >/dev/null 2>&1; then
    exec uv venv --seed --python '>=3.12' "$venv"
fi
echo "No Python 3.12 or newer was found (looked at \$PYTHON, PATH, pyenv and uv)." >&2
echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
