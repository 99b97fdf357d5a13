import Bytes
import Crypto

/// Message IDs of private files, for receipts. The file carries no ID: both ends derive it from the file.
extension MessageID {
  /// Returns the iOS app's ID of a private file. Nil if the name is not one that the app generates, with a random part.
  ///
  /// The ID is `media-` and 32 hexadecimal digits of a SHA-256. It covers `bitchat-private-media-message-v1`, sender,
  /// recipient (16 digits each) and name, each with a length prefix of 4 bytes, big endian.
  package static func media(_ name: String, from sender: PeerID, to recipient: PeerID) -> MessageID? {
    guard isRandom(name) else { return nil }
    return made("media-", "bitchat-private-media-message-v1", sender, recipient, Array(name.utf8))
  }

  /// Returns the ID of a private file between two Earshot peers, for any name: `file-` and 32 digits, over the SHA-256
  /// of the file.
  package static func file(_ bytes: [UInt8], from sender: PeerID, to recipient: PeerID) -> MessageID? {
    made("file-", "earshot-private-file-v1", sender, recipient, SHA256.hash(bytes))
  }

  private static func made(
    _ prefix: String, _ domain: String, _ sender: PeerID, _ recipient: PeerID, _ last: [UInt8]
  ) -> MessageID? {
    var writer = ByteWriter()
    writer.append(domain.utf8)
    for field in [Array(sender.description.utf8), Array(recipient.description.utf8), last] {
      writer.u32be(UInt32(clamping: field.count))
      writer.append(field)
    }
    return try? MessageID(prefix + Hex.encode(SHA256.hash(writer.bytes).prefix(16)))
  }

  /// Matches `img_….jpg` and `voice_….m4a` with a UUID behind the last underscore, or `voice_` and 16 hexadecimal
  /// digits.
  private static func isRandom(_ name: String) -> Bool {
    guard !name.contains("/"), let dot = name.lastIndex(of: ".") else { return false }
    let (stem, ending) = (name[..<dot], name[name.index(after: dot)...].lowercased())
    let isImage = stem.hasPrefix("img_") && (ending == "jpg" || ending == "jpeg")
    let isVoice = stem.hasPrefix("voice_") && ending == "m4a"
    guard isImage || isVoice, let last = stem.split(separator: "_").last else { return false }
    if isUUID(last) { return true }
    let burst = stem.dropFirst("voice_".count)
    return isVoice && burst.utf8.count == 16 && burst.allSatisfy(\.isHexDigit)
  }

  private static func isUUID(_ text: Substring) -> Bool {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    return parts.map(\.utf8.count) == [8, 4, 4, 4, 12] && parts.allSatisfy { $0.allSatisfy(\.isHexDigit) }
  }
}
