module longhaul.test/tls-client

go 1.24
