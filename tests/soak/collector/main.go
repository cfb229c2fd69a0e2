// SPDX-License-Identifier: Apache-2.0

// An OpenTelemetry Collector with what the test needs of it: OTLP in, text out.
package main

import (
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/loggingexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	receivers, err := receiver.MakeFactoryMap(otlpreceiver.NewFactory())
	if err != nil {
		log.Fatal(err)
	}
	exporters, err := exporter.MakeFactoryMap(loggingexporter.NewFactory())
	if err != nil {
		log.Fatal(err)
	}
	cmd := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "for tests", Version: "0.79.0"},
		Factories: otelcol.Factories{Receivers: receivers, Exporters: exporters},
	})
	if err := cmd.Execute(); err != nil {
		log.Fatal(err)
	}
}
