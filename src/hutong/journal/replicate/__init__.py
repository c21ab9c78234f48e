"""The journal of a replica that does not lead: it takes the leader's chunks, and cuts what the leader never had."""
