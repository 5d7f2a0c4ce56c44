"""What every gRPC server and client of the product shares: set-up, TLS, tokens, status codes, graceful stop."""
