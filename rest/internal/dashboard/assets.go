package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is an embedded file that pages load.
type asset struct {
	content []byte
	kind    string // its media type
	version string // changes with its content
}

// assetKinds are the media types of the served files, by extension. Other files are not served.
var assetKinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// assets are the files of all dashboards. They are read once.
var assets = sync.OnceValue(loadAssets)

// loadAssets reads the embedded files, by their paths below assets. It panics if that fails,
// which would be a defect of this package.
func loadAssets() map[string]asset {
	loaded := map[string]asset{}
	err := fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || assetKinds[path.Ext(name)] == "" {
			return err
		}
		content, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		loaded[strings.TrimPrefix(name, "assets/")] = asset{
			content: content,
			kind:    assetKinds[path.Ext(name)],
			version: hex.EncodeToString(sum[:8]),
		}
		return nil
	})
	if err != nil {
		panic("reading the embedded files of the dashboard: " + err.Error())
	}
	return loaded
}

// asset serves a file. Its address contains its version, so browsers cache it for ever.
func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	file, found := assets()[r.PathValue("path")]
	if !found {
		d.Refuse(w, r, errNoPage)
		return
	}
	secure(w.Header())
	etag := `"` + file.version + `"`
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", file.kind)
	w.Header().Set("Etag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(file.content) // fails if the client has disconnected
}
