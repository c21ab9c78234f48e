"""Who somebody is, how that is shown, and what each may do. Knows no broker, no topic and no socket."""
