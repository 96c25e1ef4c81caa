package api

import (
	_ "embed" // for Description

	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Description describes the routes as OpenAPI 3.1. Package openapi generates it.
//
//go:embed openapi.json
var Description []byte

func describe(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	if err := c.guard.Check(c.r, guard.Read); err != nil {
		return answer{}, err
	}
	c.w.Header().Set("Content-Type", web.JSON)
	_, err := c.w.Write(Description)
	web.LogUnsent(c.r, err)
	return answer{sent: true}, nil
}
