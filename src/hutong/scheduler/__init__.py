"""Fair turns among actors with mailboxes. Knows no broker, no journal and no protocol."""
