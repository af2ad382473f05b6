// Runs Helm on YAML, values and charts: one request per line of standard input, one answer per line of standard output, both
// JSON. What need not be UTF-8 is in base64, as encoding/json writes []byte.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// request is one case; Do decides which fields it has.
type request struct {
	Do    string          `json:"do"`
	Text  []byte          `json:"text,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// answer has the output or the error.
type answer struct {
	Output string `json:"output"`
	Error  string `json:"error,omitempty"`
	Failed bool   `json:"failed"`
}

var actions = map[string]func(*request) (string, error){
	"read":       read,
	"readStrict": readStrict,
	"readMap":    readMap,
	"readArray":  readArray,
	"write":      write,
	"pretty":     pretty,
	"merged":     merged,
	"loadValues": loadValues,
	"manifests":  manifests,
	"load":       load,
	"archive":    loadArchive,
	"coalesced":  coalesced,
	"scopes":     scopes,
	"template":   template,
	"schema":     schema,
	"measure":    measure,
	"versions":   versions,
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			respond(out, line)
		}
		if err != nil {
			return
		}
	}
}

func respond(out *bufio.Writer, line []byte) {
	output, err := run(line)
	response := answer{Output: output}
	if err != nil {
		response = answer{Error: err.Error(), Failed: true}
	}
	text, err := json.Marshal(response)
	if err != nil {
		panic(err)
	}
	out.Write(append(text, '\n'))
	out.Flush()
}

func run(line []byte) (output string, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return "", err
	}
	do, known := actions[req.Do]
	if !known {
		return "", fmt.Errorf("unknown action %q", req.Do)
	}
	return do(&req)
}
