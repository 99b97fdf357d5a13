/// MIME types that the apps accept for files. The content must begin as the type requires. Facts: bitchat.md section
/// 10.
///
/// The raw value is the MIME type.
public enum FileKind: String, CaseIterable, Hashable, Sendable {
  case jpeg = "image/jpeg"
  case jpg = "image/jpg"
  case png = "image/png"
  case gif = "image/gif"
  case webp = "image/webp"
  case mp4 = "audio/mp4"
  case m4a = "audio/m4a"
  case aac = "audio/aac"
  case mpeg = "audio/mpeg"
  case mp3 = "audio/mp3"
  case wav = "audio/wav"
  case xWav = "audio/x-wav"
  case ogg = "audio/ogg"
  case pdf = "application/pdf"
  /// A file with content of any type.
  case octetStream = "application/octet-stream"

  /// Returns the kind of a MIME type, in any case. `octetStream` for nil or empty; nil for a type that the apps reject.
  public init?(mime: String?) {
    guard let mime, !mime.isEmpty else {
      self = .octetStream
      return
    }
    self.init(rawValue: mime.lowercased())
  }

  /// Detects the kind from the first bytes of a content. `octetStream` if none matches.
  public init(content: some Collection<UInt8>) {
    let shown: [FileKind] = [.jpeg, .png, .gif, .webp, .wav, .ogg, .pdf]
    let head = Array(content.prefix(12))
    self =
      shown.first { $0.isBeginning(head) }
      ?? (head.dropFirst(4).starts(with: Array("ftypM4A".utf8)) ? .mp4 : .octetStream)
  }

  /// Whether the content matches this kind by the rules of the apps. AAC content only needs more than 100 bytes,
  /// because phones write several headers.
  public func isKind(of content: [UInt8]) -> Bool {
    guard !content.isEmpty else { return false }
    switch self {
    case .octetStream: return true
    case .mp4, .m4a, .aac: return content.count > 100
    default: return isBeginning(Array(content.prefix(12)))
    }
  }

  /// File name extension of this kind.
  public var suffix: String {
    switch self {
    case .jpeg, .jpg: "jpg"
    case .png: "png"
    case .gif: "gif"
    case .webp: "webp"
    case .mp4, .m4a, .aac: "m4a"
    case .mpeg, .mp3: "mp3"
    case .wav, .xWav: "wav"
    case .ogg: "ogg"
    case .pdf: "pdf"
    case .octetStream: "bin"
    }
  }

  /// Accepted file name extensions of this kind, in lower case.
  var endings: Set<String> {
    switch self {
    case .jpeg, .jpg: ["jpg", "jpeg", "jpe", "jfif"]
    case .mp4, .m4a, .aac: ["m4a", "mp4", "aac", "m4b"]
    case .mpeg, .mp3: ["mp3", "mpeg", "mpga"]
    case .wav, .xWav: ["wav", "wave"]
    case .ogg: ["ogg", "oga", "opus"]
    case .png, .gif, .webp, .pdf, .octetStream: [suffix]
    }
  }

  private func isBeginning(_ head: [UInt8]) -> Bool {
    switch self {
    case .jpeg, .jpg: head.starts(with: [0xFF, 0xD8, 0xFF])
    case .png: head.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
    case .gif: head.starts(with: Array("GIF87a".utf8)) || head.starts(with: Array("GIF89a".utf8))
    case .webp: head.starts(with: Array("RIFF".utf8)) && head.dropFirst(8).starts(with: Array("WEBP".utf8))
    case .wav, .xWav: head.starts(with: Array("RIFF".utf8)) && head.dropFirst(8).starts(with: Array("WAVE".utf8))
    case .mpeg, .mp3:
      head.starts(with: Array("ID3".utf8)) || head.count > 1 && head[0] == 0xFF && head[1] & 0xE0 == 0xE0
    case .ogg: head.starts(with: Array("OggS".utf8))
    case .pdf: head.starts(with: Array("%PDF".utf8))
    case .mp4, .m4a, .aac, .octetStream: false
    }
  }
}
