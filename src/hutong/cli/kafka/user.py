"""`hutong user`: who may log in, on a running node or in the data folder of one that does not run.

Strategy: a password is read from a prompt, from standard input or from HUTONG_USER_PASSWORD, never from the command
line, which others can see. It is salted here: no node is sent it.

Knows nothing of how nodes keep users.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from hutong.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes
from hutong.cli.output import print_rows, remark
from hutong.foundation.errors import ExitCode, UsageError

PASSWORD_VARIABLE: Final = "HUTONG_USER_PASSWORD"
PASSWORD_BYTES_MAX: Final = 1024
DEFAULT_ITERATIONS: Final = 8192

app = typer.Typer(help="Users that log in by SASL: add, list, remove.", no_args_is_help=True)

UserName = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Folder = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Data folder of a node that does not run, instead of --bootstrap."),
]
MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


@app.command()
def add(
    name: UserName,
    mechanism: Annotated[
        MechanismName | None,
        typer.Option("--mechanism", "-m", help="SCRAM mechanism to log in by; both unless given. PLAIN needs one."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=4096, max=16384, help="Rounds that make guessing slow, and logging in by PLAIN.")
    ] = DEFAULT_ITERATIONS,
    data_dir: Folder = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Add a user, or give one a new password: asked for, or the first line of standard input."""
    from hutong.security.sasl.scram_credentials import MECHANISM_NAMES, salt_password

    password = _password(name)
    chosen = [one for one in MECHANISM_NAMES.values() if mechanism in (None, one.name)]
    salted = {one.number: salt_password(one, password, iterations, os.urandom) for one in chosen}
    if data_dir is not None:
        asyncio.run(_put_offline(data_dir, name, salted))
    else:
        _put_online(bootstrap, name, password, salted)
    remark(f"The user {name} logs in by {' or '.join(one.name for one in chosen)}, or PLAIN.")


@app.command("list")
def list_users(data_dir: Folder = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List users with their mechanisms; passwords cannot be shown."""
    rows = asyncio.run(_list_offline(data_dir)) if data_dir is not None else _list_online(bootstrap)
    print_rows(rows, ("user", "mechanisms", "iterations"), as_json=as_json)


@app.command()
def remove(name: UserName, data_dir: Folder = None, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Remove a user. Connections that are logged in already stay so until their sessions end."""
    from hutong.cli.kafka.topic import confirm

    confirm(f"Remove the user {name}?", yes=yes)
    is_gone = asyncio.run(_remove_offline(data_dir, name)) if data_dir is not None else _remove_online(bootstrap, name)
    if not is_gone:
        raise UsageError(f"There is no user {name}; `hutong user list` shows who there is.", ExitCode.NOINPUT)


def _password(name: str) -> bytes:
    """From the environment, a prompt, or standard input. Raises UsageError."""
    text = os.environ.get(PASSWORD_VARIABLE)
    if text is None and sys.stdin.isatty():
        text = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    elif text is None:
        text = sys.stdin.readline(PASSWORD_BYTES_MAX + 2).rstrip("\r\n")
    password = (text or "").encode()
    if not 0 < len(password) <= PASSWORD_BYTES_MAX or b"\0" in password:
        raise UsageError(
            f"A password has from 1 to {PASSWORD_BYTES_MAX} bytes; write it to standard input, or set "
            f"{PASSWORD_VARIABLE}.",
            ExitCode.DATAERR,
        )
    return password


async def _put_offline(data_dir: Path, name: str, salted: Any) -> None:
    from hutong.foundation.errors import Refused
    from hutong.server.broker.data.offline_users import offline_users

    async with offline_users(data_dir) as users:
        try:
            await users.put(name, salted)
        except Refused as refused:
            raise UsageError(str(refused), ExitCode.DATAERR) from None


async def _remove_offline(data_dir: Path, name: str) -> bool:
    from hutong.server.broker.data.offline_users import offline_users

    _check_folder(data_dir)
    async with offline_users(data_dir) as users:
        return await users.remove(name)


async def _list_offline(data_dir: Path) -> list[dict[str, Any]]:
    from hutong.server.broker.data.offline_users import offline_users

    _check_folder(data_dir)
    async with offline_users(data_dir) as users:
        return [_row(name, users.iterations(name)) for name in users.names]


def _check_folder(data_dir: Path) -> None:
    if not data_dir.is_dir():
        raise UsageError(f"There is no folder {data_dir}.", ExitCode.NOINPUT)


def _put_online(bootstrap: str, name: str, password: bytes, salted: Any) -> None:
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    changes = [
        UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism(number), one.iterations), password, salt=one.salt
        )
        for number, one in salted.items()
    ]
    _alter(bootstrap, name, changes)


def _remove_online(bootstrap: str, name: str) -> bool:
    from confluent_kafka.admin import UserScramCredentialDeletion

    infos = _described(bootstrap).get(name)
    if infos:
        _alter(bootstrap, name, [UserScramCredentialDeletion(name, mechanism) for mechanism in infos])
    return bool(infos)


def _list_online(bootstrap: str) -> list[dict[str, Any]]:
    found = _described(bootstrap)
    return [_row(name, {mechanism.value: count for mechanism, count in found[name].items()}) for name in sorted(found)]


def _alter(bootstrap: str, name: str, changes: list[Any]) -> None:
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)  # kept by name: its destruction ends the calls that are under way
    client.result(admin.alter_user_scram_credentials(changes)[name], f"user {name}")


def _described(bootstrap: str) -> dict[str, dict[Any, int]]:
    from hutong.cli.kafka import client

    admin = client.admin(bootstrap)
    described: Any = admin.describe_user_scram_credentials()  # all users: one future for all
    found = client.result(described, "list of users")
    return {
        name: {info.mechanism: info.iterations for info in user.scram_credential_infos} for name, user in found.items()
    }


def _row(name: str, iterations: Any) -> dict[str, Any]:
    from hutong.security.sasl.scram_credentials import MECHANISMS

    known = [number for number in sorted(iterations) if number in MECHANISMS]
    return {
        "user": name,
        "mechanisms": " ".join(MECHANISMS[number].name for number in known),
        "iterations": " ".join(str(iterations[number]) for number in known),
    }
