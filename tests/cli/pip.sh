#!/usr/bin/env bash
# pip.sh PYTHON: pip installs the programs and the module vlat from the source tree into a virtual
# environment, where they run. The test is skipped where pip reaches no index, unless the builder
# scikit-build-core is installed. The objects are those of the build folder, which are of the same
# sources; pip's builder asks a compiler for the others, and links.
. "$(dirname "$0")/../lib/check.sh"
python=$1
set=$VLT_BUILD/tests/made.lmdb
cat >compiled <<'END'
#!/usr/bin/env bash
# compiled COMPILER ARGUMENTS...: copies the object that the build folder has, or compiles it.
object=
for ((i = 1; i < $#; i++)); do
    [ "${!i}" != -o ] || { j=$((i + 1)) object=${!j}; }
done
cp "$VLT_BUILD/$object" "$object" 2>/dev/null || exec "$@"
END
chmod +x compiled
options=(-C cmake.define.CMAKE_C_COMPILER_LAUNCHER="$dir/compiled"
    -C cmake.define.CMAKE_CXX_COMPILER_LAUNCHER="$dir/compiled")

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
