"""Authorization of clients.

Knows nothing of files, the environment or the command line.
"""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import setting


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Authorization by ACLs. Listeners say who is authenticated, and how."""

    authorize: bool = setting(
        False, "Whether requests are checked against ACLs. ACLs can only be created while they are."
    )
    super_users: tuple[str, ...] = setting(
        (), "Principals that may do everything, such as `User:admin`; a semicolon may stand between.", "super.users"
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False,
        "Whether everybody may use resources that no ACL is about; else nobody may but super users.",
        "allow.everyone.if.no.acl.found",
    )
    allow_plain: tuple[str, ...] = setting(
        (),
        "Listeners that may be open to the network without TLS: kafka, metrics, tcp-bridge, sockjs, rpc, grpc or all.",
    )
