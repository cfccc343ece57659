"""HTTP: what load balancers and people with a browser ask first."""
