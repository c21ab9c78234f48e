"""A small application, written twice: orders come in, invoices go out, and what cannot be read is put aside."""
