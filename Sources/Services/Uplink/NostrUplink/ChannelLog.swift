import DBus
import Nostr

/// A text in a geohash channel, by this machine or another one.
struct ChannelLine: Hashable, Sendable {
  let number: UInt32
  /// Seconds since 1970, by the author's clock.
  let time: Int64
  let channel: String
  /// The author's key in this channel, 64 hexadecimal digits.
  let author: String
  /// The author's nickname; empty if the event has none.
  let nickname: String
  let text: String
  /// Whether the author has marked the text with the tag `teleport`, as someone who is not in the area of the geohash.
  let isTeleported: Bool

  /// The line in the form `(utssssb)` of D-Bus, with the time in milliseconds.
  var value: DBusValue {
    .structure([
      .uint32(number), .uint64(UInt64(max(0, time)) &* 1000), .string(channel), .string(author), .string(nickname),
      .string(text), .bool(isTeleported),
    ])
  }
}

/// The last texts in geohash channels, in memory.
struct ChannelLog: Sendable {
  /// Maximum texts; the oldest is dropped.
  static let limit = 500

  private(set) var lines: [ChannelLine] = []
  private var last: UInt32 = 0

  /// Adds a text.
  ///
  /// - Returns: its number.
  mutating func add(
    _ text: String, in channel: Geohash, by author: NostrKey, nickname: String?, at time: UnixTime, isTeleported: Bool
  ) -> UInt32 {
    last &+= 1
    lines.append(
      ChannelLine(
        number: last, time: time.seconds, channel: channel.text, author: author.hex, nickname: nickname ?? "",
        text: text, isTeleported: isTeleported))
    if lines.count > Self.limit { lines.removeFirst() }
    return last
  }

  /// Texts after a number, oldest first.
  func list(after number: UInt32, limit: Int) -> [ChannelLine] {
    Array(lines.drop { $0.number <= number }.prefix(limit))
  }
}
