import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of mesh files")
struct SharedFileTests {
  @Test("Recorded files are decoded, and encoded as the apps encode them")
  func vectors() throws {
    func row(_ name: String) throws -> [UInt8] {
      try #require(Vectors.shared.files.first { $0.name.hasPrefix(name) }?.tlv).bytes
    }
    let file = try SharedFile(reading: row("canonical"))
    #expect(file.name == "voice_0011223344556677.m4a" && file.mime == "audio/mp4")
    #expect(file.content == Array("hello".utf8))
    let canonical = try row("canonical")
    #expect(file.bytes == canonical)
    // The size has eight bytes, and the length two.
    let legacy = try SharedFile(reading: row("legacy"))
    #expect(legacy.name == "a" && legacy.mime == "text/plain" && legacy.content == Array("hi".utf8))
    let android = try SharedFile(reading: Hex.decode("01000161020004000000020300016d0400000002dead"))
    #expect(android.content == [0xDE, 0xAD] && android.name == "a" && android.mime == "m")
  }

  @Test("A recorded private file in a Noise session is decoded with payload types 20 and 09")
  func privateFile() throws {
    let hex = "20010005612e7478740200040000000303000a746578742f706c61696e0400000003010203"
    let payload = try NoisePayload(reading: Hex.decode(hex))
    let file = try SharedFile(name: "a.txt", mime: "text/plain", content: [1, 2, 3])
    #expect(payload == .file(file))
    #expect(Hex.encode(payload.bytes) == hex)
    #expect(try NoisePayload(reading: [9] + Hex.decode(hex).dropFirst()) == payload)
  }

  private static let name: [UInt8] = [1, 0, 1, 0x61]
  private static let size: [UInt8] = [2, 0, 4, 0, 0, 0, 2]
  private static let content: [UInt8] = [4, 0, 0, 0, 2, 7, 8]

  @Test("A mesh file with an invalid field is refused")
  func wrongFields() throws {
    let (name, size, content) = (Self.name, Self.size, Self.content)
    #expect(try SharedFile(reading: name + size + content).content == [7, 8])
    let wrong: [(String, [UInt8])] = [
      ("nothing", []), ("no content", name + size), ("an empty content", name + [4, 0, 0, 0, 0]),
      ("a name that is not UTF-8", [1, 0, 1, 0xFF] + content),
      ("a MIME type that is not UTF-8", [3, 0, 2, 0xC3, 0x28] + content),
      ("another size", name + [2, 0, 4, 0, 0, 0, 3] + content),
      ("a size of three bytes", name + [2, 0, 3, 0, 0, 2] + content),
      ("a size of 2^64 - 1", name + [2, 0, 8] + [UInt8](repeating: 0xFF, count: 8) + content),
      ("a content beyond the end", name + [4, 0xFF, 0xFF, 0xFF, 0xFF, 1]),
      ("a name beyond the end", [1, 0xFF, 0xFF, 0x61] + content),
      ("a record without length", content + [9]), ("a record that is cut", content + [9, 0, 5, 1]),
    ]
    for (what, bytes) in wrong {
      #expect(throws: WireError.self, "\(what)") { try SharedFile(reading: bytes) }
    }
    #expect(try SharedFile(reading: [9, 0, 1, 5] + content).content == [7, 8], "an unknown record is passed over")
    #expect(try SharedFile(reading: [4, 0, 1, 1, 4, 0, 1, 2]).content == [1, 2], "a content in parts is one")
  }

  @Test("A mesh file of 1 MiB is accepted; one byte more is refused")
  func size() throws {
    let content = [UInt8](repeating: 7, count: Limits.fileBytes)
    let file = try SharedFile(name: "a", mime: nil, content: content)
    #expect(try SharedFile(reading: file.bytes) == file)
    #expect(file.bytes.count <= Limits.payloadBytes)
    #expect(throws: WireError.tooLong(field: "content", limit: 1 << 20)) {
      try SharedFile(name: "a", mime: nil, content: content + [7])
    }
    let long = [4, 0, 0x10, 0, 1] + content + [7]
    #expect(throws: WireError.self) { try SharedFile(reading: long) }
  }

  @Test(
    "A mesh file's kind must match its MIME type and the first bytes of its content",
    arguments: [
      ("image/jpeg", [0xFF, 0xD8, 0xFF, 0xE0], true), ("image/jpg", [0xFF, 0xD8, 0xFF], true),
      ("IMAGE/PNG", [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], true),
      ("image/png", [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A], false),
      ("image/jpeg", Array("GIF89a".utf8), false), ("image/gif", Array("GIF89a".utf8), true),
      ("image/webp", Array("RIFF0000WEBP".utf8), true), ("image/webp", Array("RIFF0000WAVE".utf8), false),
      ("audio/wav", Array("RIFF0000WAVE".utf8), true), ("audio/x-wav", Array("RIFF0000WAV".utf8), false),
      ("audio/ogg", Array("OggS".utf8), true), ("application/pdf", Array("%PDF-1.7".utf8), true),
      ("application/pdf", Array("MZ".utf8), false), ("audio/mpeg", Array("ID3".utf8), true),
      ("audio/mp3", [0xFF, 0xFB], true), ("audio/mp3", [0xFF, 0x1B], false),
      ("audio/mp4", [UInt8](repeating: 1, count: 101), true), ("audio/aac", [UInt8](repeating: 1, count: 100), false),
      ("application/octet-stream", [0], true), ("application/octet-stream", [], false),
    ] as [(String, [UInt8], Bool)])
  func kinds(mime: String, content: [UInt8], isKind: Bool) throws {
    #expect(try #require(FileKind(mime: mime)).isKind(of: content) == isKind)
  }

  @Test("A MIME type that the apps do not accept is refused, and a missing type allows any content")
  func otherKinds() {
    for mime in ["text/html", "image/svg+xml", "application/x-sh", "image/jpeg; a", " image/jpeg", "application/zip"] {
      #expect(FileKind(mime: mime) == nil)
    }
    #expect(FileKind(mime: nil) == .octetStream && FileKind(mime: "") == .octetStream)
    #expect(FileKind(content: Array("%PDF-1".utf8)) == .pdf && FileKind(content: [1]) == .octetStream)
    #expect(FileKind(content: [0xFF, 0xD8, 0xFF]) == .jpeg)
  }

  @Test(
    "A received file name is reduced to a plain name without path or control characters",
    arguments: [
      ("notes.txt", "notes.txt"), ("../../etc/passwd", "passwd"), ("/etc/shadow", "shadow"), ("C:\\a\\b.exe", "b.exe"),
      ("..", "file.bin"), (".", "file.bin"), ("", "file.bin"), ("/", "file.bin"), (".bashrc", "bashrc"),
      ("a\nb.jpg", "ab.jpg"), ("a\u{0}b", "ab"), ("x\u{202E}gpj.exe", "xgpj.exe"), ("a\u{1B}[2Jb", "a[2Jb"),
      ("  a   b  .txt ", "a b .txt"), ("a/", "file.bin"), ("end. . ", "end"), ("grüße 😀.png", "grüße 😀.png"),
    ])
  func names(name: String, plain: String) {
    #expect(FileName.plain(name, .octetStream) == plain)
  }

  @Test("A long file name is cut to 100 characters and 200 bytes, and its extension is preserved")
  func longNames() {
    let long = FileName.plain(String(repeating: "a", count: 300) + ".jpeg", .jpeg)
    #expect(long == String(repeating: "a", count: 95) + ".jpeg")
    let wide = FileName.plain(String(repeating: "😀", count: 300) + ".png", .png)
    #expect(wide.utf8.count <= 200 && wide.hasSuffix(".png"))
    let marks = FileName.plain("a" + String(repeating: "\u{301}", count: 60_000), .png)
    #expect(marks.unicodeScalars.count <= 100)
    for (name, kind, plain) in [
      ("statement.html", FileKind.png, "statement.html.png"), ("photo", .jpeg, "photo.jpg"),
      ("Photo.JPEG", .jpg, "Photo.JPEG"),
      ("a.png", .png, "a.png"), ("voice.m4a", .mp4, "voice.m4a"), ("run.sh", .pdf, "run.sh.pdf"),
      (".png", .png, "png.png"),
      ("page.html", .octetStream, "page.html"), ("x.png\u{202E}", .png, "x.png"),
      ("x.pdf .exe", .pdf, "x.pdf .exe.pdf"),
      // U+0D4E forms one character with what follows it.
      ("\u{0D4E}", .png, "\u{0D4E}.png"), ("a\u{0D4E} b.png", .png, "a\u{0D4E} b.png"),
    ] {
      #expect(FileName.plain(name, kind) == plain)
      #expect(FileName.plain(plain, kind) == plain)
    }
    let cut = FileName.plain(String(repeating: "a", count: 98) + ".html", .png)
    #expect(cut.count <= 100 && cut.hasSuffix(".png") && FileName.plain(cut, .png) == cut)
    #expect(FileName.plain("x." + String(repeating: "y", count: 300), .png).unicodeScalars.count <= 100)
  }

  @Test("A receipt names a private file by the iOS app's media ID")
  func mediaID() {
    let (sender, recipient) = (PeerID(rawValue: 0x0011_2233_4455_6677), PeerID(rawValue: 0x8899_AABB_CCDD_EEFF))
    func id(_ name: String) -> String? { MessageID.media(name, from: sender, to: recipient)?.text }
    let name = "img_20260725_105708_1CC2760D-76AA-40C3-8013-C7FAA6C2EF99.jpg"
    #expect(id(name) == "media-910bd42c65060ab76bb6406f220c4516")
    #expect(id("voice_0011223344556677.m4a") != nil && id("voice_0011223344556677.m4a") != id(name))
    for other in ["img_1.jpg", "notes.txt", "a/" + name, "img_0011223344556677.jpg", "voice_00112233445566.m4a", ""] {
      #expect(id(other) == nil)
    }
    #expect(MessageID.media(name, from: recipient, to: sender)?.text != id(name))
  }
}
