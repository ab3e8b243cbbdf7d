// The name under which the pages of this browser tell each other words.

export const CHANNEL = "streamer.captions";
