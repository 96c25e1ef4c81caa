module example.com/fleet

go 1.24.0

require (
	github.com/mongodb/amboy v0.0.0-00010101000000-000000000000
	github.com/mongodb/grip v0.0.0-20260728153343-09a3a7fc4c49
	github.com/pkg/errors v0.9.1
	github.com/stretchr/testify v1.10.0
	github.com/urfave/cli v1.22.10
	go.mongodb.org/mongo-driver v1.17.1
	go.opentelemetry.io/otel v1.34.0
)
