#!/usr/bin/env bash
# pip.sh PYTHON: pip installs the programs and the module vlat from the source tree into a virtual
# environment, where they run. The test is skipped where pip reaches no index, unless the builder
# scikit-build-core is installed.
. "$(dirname "$0")/../lib/check.sh"
python=$1
set=$VLT_BUILD/tests/made.lmdb
options=(-C cmake.build-type=Debug -C cmake.define.CMAKE_C_FLAGS_DEBUG=-O0
    -C cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0)           # it compiles in a quarter of the time

"$python" -m venv --system-site-packages venv >/dev/null 2>&1 ||
    { echo "skipped: $python has no module venv"; exit 77; }
pip() { venv/bin/python -m pip --disable-pip-version-check --no-input "$@"; }
if "$python" -c 'import scikit_build_core' 2>/dev/null; then
    options+=(--no-build-isolation)
elif ! pip download --quiet --no-deps --dest builder 'scikit-build-core>=0.10' >"$log" 2>&1; then
    echo "skipped: there is no scikit-build-core, and pip reaches no index"
    exit 77
fi
pip download --quiet --dest modules lmdb numpy >"$log" 2>&1 || options+=(--no-deps)
need pip install --quiet "${options[@]}" "$VLT_SOURCE"

PATH=$dir/venv/bin:$PATH
for program in vprep vtrain vdecode vlat; do
    [ "$(command -v "$program")" = "$dir/venv/bin/$program" ] || wrong "$program is not installed"
    expect 0 "^$program [0-9]" "$program" --version
done
expect 0 '^samples  *60' vlat info "$set"
if venv/bin/python -c 'import lmdb, numpy' 2>/dev/null; then
    expect 0 '^60 .*/venv/' venv/bin/python -c \
        'import sys, vlat; print(len(vlat.Dataset(sys.argv[1])), vlat.__file__)' "$set"
fi
expect 0 '^Name: vlt' pip show --files vlt
stdout_has 'vlat\.py'
