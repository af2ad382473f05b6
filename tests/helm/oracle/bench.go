package main

import (
	"encoding/json"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// measuring is a chart, and how often and how long at most it is rendered.
type measuring struct {
	Path    string
	Times   int
	Seconds float64
}

// measured has medians of one rendering in milliseconds, and peaks of memory in megabytes.
type measured struct {
	Output     int     `json:"output"`
	Loaded     float64 `json:"loaded"`
	Fresh      float64 `json:"fresh"`
	Once       float64 `json:"once"`
	Peak       float64 `json:"peak"`
	Renderings int     `json:"renderings"`
}

// measure renders a chart with its own values: loaded once, and loaded each time.
func measure(req *request) (string, error) {
	var params measuring
	if err := json.Unmarshal(req.Value, &params); err != nil {
		return "", err
	}
	with := rendering{chartWithValues: chartWithValues{Path: params.Path, Values: json.RawMessage("{}")}}
	fresh := func() (string, error) {
		from, user, err := with.read()
		if err != nil {
			return "", err
		}
		return with.printed(from, user)
	}
	text, err := fresh()
	if err != nil {
		return "", err
	}
	made := measured{Output: len(text), Once: peak()}
	if made.Fresh, _, err = median(params, fresh); err != nil {
		return "", err
	}
	from, user, err := with.read()
	if err != nil {
		return "", err
	}
	loaded := func() (string, error) { return with.printed(from, user) }
	if made.Loaded, made.Renderings, err = median(params, loaded); err != nil {
		return "", err
	}
	made.Peak = peak()
	line, err := json.Marshal(made)
	return string(line), err
}

// median is the time of one call in milliseconds, and how many there were.
func median(params measuring, render func() (string, error)) (float64, int, error) {
	times := []float64{}
	for begun := time.Now(); len(times) < params.Times && time.Since(begun).Seconds() < params.Seconds; {
		start := time.Now()
		if _, err := render(); err != nil {
			return 0, 0, err
		}
		times = append(times, float64(time.Since(start).Nanoseconds())/1e6)
	}
	sort.Float64s(times)
	return times[len(times)/2], len(times), nil
}

// peak is the highest memory of this process, in megabytes.
func peak() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		return 0
	}
	return kilobytes / 1024
}
