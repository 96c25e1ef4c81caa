// Package wire is generated from pinlater.thrift: the structures of PinLater's calls, and a
// client. A client needs a connection of its own for each call at a time:
//
//	config := &thrift.TConfiguration{}
//	framed := thrift.NewTFramedTransportConf(thrift.NewTSocketConf("127.0.0.1:9010", config), config)
//	protocol := thrift.NewTBinaryProtocolConf(framed, config)
//	client := wire.NewPinLaterClient(thrift.NewTStandardClient(protocol, protocol))
package wire

//go:generate thrift --gen go:package=wire,skip_remote -out .. ../pinlater.thrift
//go:generate gofmt -w .
