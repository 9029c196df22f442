//! Members of a domain that lost one of their objects.
