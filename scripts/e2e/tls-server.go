// A TLS server of Go's own stack on a free port, which it prints: answers with the group and version agreed on.
//
//go:build server

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	certificate, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	answer := func(writer http.ResponseWriter, request *http.Request) {
		fmt.Fprintln(writer, tls.VersionName(request.TLS.Version), request.TLS.CurveID)
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(answer),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	panic(server.ServeTLS(listener, "", ""))
}
