# shellcheck shell=bash
# What the scripts share: where the checkout is, installing packages, building a preset, counting tests.
# Sourced, never run.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly repository
export LC_ALL=C.UTF-8  # numbers with a point, names in one order, whatever the user's language

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# The names in the given sections of packages.txt.
packages_in() {
  local section
  for section in "$@"; do
    sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$repository/scripts/packages.txt" |
      awk -v wanted="[$section]" '/^\[/ { inside = ($0 == wanted); next } inside && NF'
  done
}

# Those of the given packages that are not installed.
missing_of() {
  local installed
  installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' 2>/dev/null |
    awk '$2 == "installed" { sub(/:.*/, "", $1); print $1 }')
  printf '%s\n' "$@" | sort -u | grep -Fxv -f <(printf '%s\n' "$installed") || true
}

# Installs what is missing of the given sections. Does nothing, offline too, when nothing is.
install_packages() {
  local names missing log
  mapfile -t names < <(packages_in "$@")
  if ! command -v apt-get >/dev/null; then
    say "note: no apt here; this needs what Debian calls: ${names[*]}"
    return 0
  fi
  mapfile -t missing < <(missing_of "${names[@]}")
  if [[ ${#missing[@]} -eq 0 || -z ${missing[0]} ]]; then return 0; fi

  local as_root=(env)
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      die "missing packages and neither root nor sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo env)
  fi
  local apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get
    -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  say "installing: ${missing[*]}"
  mkdir -p "$repository/build"
  log=$repository/build/apt.log
  # Known package lists are used as they are; only where they do not do are they fetched anew.
  if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
      die "apt-get could not install ${missing[*]}: $(grep -m1 '^E:' "$log" || tail -n1 "$log") (all of it: $log)"
    fi
  fi
}

# How many compilers to run at once: a core and 1.5 GiB each.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / (1536 * 1024)) }' /proc/meminfo)
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((cores < by_memory ? cores : by_memory))
}

# Configures a preset of CMakePresets.json.
configure_preset() {
  local launcher="" log=$repository/build/configure-$1.log
  if command -v ccache >/dev/null; then launcher=ccache; fi
  mkdir -p "$repository/build"
  (cd "$repository" && cmake --preset "$1" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher") >"$log" 2>&1 || {
    cat "$log" >&2
    die "configuring the preset '$1' failed"
  }
}

# build_preset NAME [target…]: configures and builds a preset.
build_preset() {
  local preset=$1 targets=()
  shift
  configure_preset "$preset"
  if (($# > 0)); then targets=(--target "$@"); fi
  export CCACHE_BASEDIR=$repository CCACHE_NOHASHDIR=1
  (cd "$repository" && cmake --build --preset "$preset" -j "$(build_jobs)" "${targets[@]}") >&2 ||
    die "building the preset '$preset' failed"
}

# git, also in a checkout that another user owns.
git_here() { git -c safe.directory='*' -C "$repository" "$@"; }

# A seed that changes with the commit, for tests that sample what is long; ATHANOR_TEST_SEED repeats a run.
test_seed() {
  local commit
  if [[ -n ${ATHANOR_TEST_SEED:-} ]]; then
    echo "$ATHANOR_TEST_SEED"
  elif commit=$(git_here rev-parse HEAD 2>/dev/null); then
    echo $((16#${commit:0:8}))
  else
    echo 1
  fi
}

# run_ctest FOLDER RESULTS [ctest argument…]: runs the tests built in FOLDER, writes JUnit to RESULTS, lists what was
# skipped and leaves the counts in tests_passed, tests_failed, tests_skipped. Fails when a test does, or when none ran.
run_ctest() {
  local folder=$1 results=$2 status=0
  shift 2
  rm -f "$results"
  ATHANOR_TEST_SEED=$(test_seed)
  export ATHANOR_TEST_SEED
  if [[ -z ${ATHANOR_GOLDEN:-} && -d $repository/../shared/golden ]]; then
    ATHANOR_GOLDEN=$(cd "$repository/../shared/golden" && pwd -P)
    export ATHANOR_GOLDEN
  fi
  say "seed: $ATHANOR_TEST_SEED (ATHANOR_TEST_SEED=$ATHANOR_TEST_SEED repeats this choice of samples)"
  say "reference vectors: tests/data${ATHANOR_GOLDEN:+ and $ATHANOR_GOLDEN}"
  ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" --no-label-summary --output-junit "$results" "$@" || status=$?
  tests_passed=0 tests_failed=0 tests_skipped=0
  if [[ -f $results ]]; then read_junit "$results"; fi
  if ((tests_skipped > 0)); then
    say "SKIPPED, $tests_skipped of them (what they need is absent here):"
    skipped_in "$results" | sed 's/^/  /' >&2
  fi
  if ((tests_passed + tests_failed == 0)); then
    say "error: no test ran"
    status=1
  fi
  return "$status"
}

junit_attribute() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" | head -n1; }

read_junit() {
  local head total
  head=$(sed -n '/<testsuite /,/>/p' "$1" | tr '\n' ' ' | sed 's/>.*//')
  total=$(junit_attribute tests <<<"$head")
  tests_failed=$(junit_attribute failures <<<"$head")
  tests_skipped=$(($(junit_attribute skipped <<<"$head") + $(junit_attribute disabled <<<"$head")))
  tests_passed=$((total - tests_failed - tests_skipped))
}

skipped_in() { sed -n 's/.*<testcase name="\([^"]*\)".*status="\(notrun\|disabled\)".*/\1/p' "$1"; }
