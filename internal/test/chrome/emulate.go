package chrome

import (
	"context"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// emulate applies a look to the window.
func emulate(look Look) chromedp.Action[chromedp.Void] {
	size := []chromedp.EmulateViewportOption{}
	if look.Phone {
		size = append(size, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	return chromedp.Steps(
		chromedp.EmulateViewport(int64(look.Width), int64(look.Height), size...),
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
			if err == nil && look.NoScript {
				_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			}
			return err
		}),
	)
}
