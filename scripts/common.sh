# Shared functions of the scripts in this folder, which source it.
# shellcheck shell=bash

PATH="$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin:/opt/homebrew/bin"

# cannot REASON: ends the script, because a requirement cannot be installed. scripts/test then skips the step.
cannot() {
    echo "$*" >&2
    [ -z "${HOOKLATCH_TEST_CANNOT:-}" ] || echo "$*" >"$HOOKLATCH_TEST_CANNOT"
    exit 77
}

# as_root COMMAND…: asks for a password only on a terminal.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@" 2>/dev/null; fi
}

# Debian's packages start what they install; a policy that forbids it prevents that.
apt_install() {
    local policy=/usr/sbin/policy-rc.d made= status=0
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
    as_root true || return 1
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        made=1
    fi
    as_root "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
        { as_root "${apt[@]}" update && as_root "${apt[@]}" install -y --no-install-recommends "$@"; } >/dev/null || status=1
    [ -z "$made" ] || as_root rm -f "$policy"
    return $status
}

# install_package COMMAND APT-PACKAGE [BREW-FORMULA]: installs what brings COMMAND.
install_package() {
    echo "installing $2" >&2
    if command -v apt-get >/dev/null; then
        apt_install "$2" || cannot "$1 is not installed, and apt-get cannot install it (that needs root and a network)"
    elif command -v brew >/dev/null; then
        brew install --quiet "${3:-$2}" || cannot "$1 is not installed, and brew cannot install it"
    else
        cannot "$1 is not installed, and there is no package manager that is known here"
    fi
    hash -r
}

# need COMMAND [APT-PACKAGE [BREW-FORMULA]]: installs it unless it is there. Packages are called as the command by default.
need() {
    command -v "$1" >/dev/null && return 0
    install_package "$1" "${2:-$1}" "${3:-${2:-$1}}"
    command -v "$1" >/dev/null || cannot "$1 is not found after its installation"
}

# venv FOLDER PIP-ARGUMENT…: a virtual environment with what pip installs by these arguments; installed again when they,
# or the requirements that they name, change.
venv() {
    local folder=$1 stamp
    shift
    stamp=$folder/installed-$({ printf '%s\n' "$@"; cat -- "${@: -1}" 2>/dev/null || true; } | cksum | cut -d' ' -f1)
    [ ! -e "$stamp" ] || return 0
    need python3
    echo "installing ${*: -1} below $folder" >&2
    # Debian has the module that makes environments in a package of its own.
    python3 -m venv --clear "$folder" >/dev/null 2>&1 ||
        { command -v apt-get >/dev/null && apt_install python3-venv && python3 -m venv --clear "$folder"; } ||
        cannot "python3 has no venv, and it cannot be installed"
    # By the interpreter: the launcher of a copied folder would install where it was copied from.
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 30 "$@" ||
        cannot "pip cannot install ${*: -1}"
    touch "$stamp"
}

# npm_install FOLDER PACKAGE.JSON: what that file names, below the folder; installed again when it changes.
npm_install() {
    local folder=$1
    if [ -e "$folder/installed" ] && cmp -s "$2" "$folder/package.json"; then return 0; fi
    need npm
    echo "installing what $2 names below $folder" >&2
    mkdir -p "$folder"
    rm -f "$folder/installed"
    cp "$2" "$folder/package.json"
    (cd "$folder" && npm install --silent --no-audit --no-fund --ignore-scripts) || cannot "npm cannot install what $2 names"
    touch "$folder/installed"
}

# free_port: an unused port of 127.0.0.1.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null ||
        echo $((20000 + RANDOM % 12000))
}

# pg_bin: the folder of PostgreSQL's own programs, the newest first.
pg_bin() {
    local dir
    for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/pg_basebackup" ]; then echo "$dir"; return 0; fi
    done
    if command -v initdb >/dev/null && command -v pg_basebackup >/dev/null; then dirname "$(command -v initdb)"; return 0; fi
    return 1
}

# need_postgres: installs PostgreSQL unless it is there; the folder of its programs in PG_BIN.
need_postgres() {
    PG_BIN=$(pg_bin) && return 0
    install_package PostgreSQL postgresql
    PG_BIN=$(pg_bin) || cannot "PostgreSQL is not found after its installation"
}

# pg_user: the user for servers that refuse to run as root; empty for other users.
pg_user() {
    if [ "$(id -u)" = 0 ]; then getent passwd postgres >/dev/null && echo postgres || echo nobody; fi
}
