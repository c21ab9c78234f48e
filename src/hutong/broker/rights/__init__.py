"""Authorization: the ACLs, the questions that handlers ask of them, and the table of what each API needs."""
