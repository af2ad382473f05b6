package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

func read(req *request) (string, error) {
	var value any
	return shown(&value, yaml.Unmarshal(req.Text, &value))
}

func readStrict(req *request) (string, error) {
	var value any
	return shown(&value, yaml.UnmarshalStrict(req.Text, &value))
}

func readMap(req *request) (string, error) {
	value := map[string]any{}
	return shown(&value, yaml.Unmarshal(req.Text, &value))
}

func readArray(req *request) (string, error) {
	value := []any{}
	return shown(&value, yaml.Unmarshal(req.Text, &value))
}

func shown(value any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// write is what Helm's toYaml does.
func write(req *request) (string, error) {
	value, err := typed(req.Value)
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

// pretty is what Helm's toYamlPretty does.
func pretty(req *request) (string, error) {
	value, err := typed(req.Value)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := goyaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err = encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// typed reads JSON in which a number is an int64 or uint64 if it can be, and {"$float": "1e6"} is a float64,
// {"$bytes": "..."} a string of those bytes, in base64.
func typed(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return of(value), nil
}

func of(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			return n
		}
		n, _ := value.Float64()
		return n
	case []any:
		for i := range value {
			value[i] = of(value[i])
		}
		return value
	case map[string]any:
		if text, found := value["$float"].(string); found {
			return float(text)
		}
		if text, found := value["$bytes"].(string); found {
			var bytes []byte
			if err := json.Unmarshal([]byte(strconv.Quote(text)), &bytes); err != nil {
				panic(err)
			}
			return string(bytes)
		}
		for key := range value {
			value[key] = of(value[key])
		}
		return value
	default:
		return value
	}
}

func float(text string) float64 {
	switch text {
	case "nan":
		return math.NaN()
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return n
}
