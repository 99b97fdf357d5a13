import Bytes
import Common
import Compression

extension Target {
  static let base = [
    Target(
      name: "inflate",
      seeds: {
        let text = Array("what is compressed".utf8)
        let bomb = [UInt8](repeating: 0, count: 1 << 17)
        return try Vectors.read().payloads.map { try Hex.decode($0.gzipHex) }
          + [Gzip.compress([]), RawDeflate.compress(text), RawDeflate.compress(bomb), Gzip.compress(bomb)]
      },
      run: { bytes in
        for limit in [100, 1 << 16] {
          if let text = taken({ try Gzip.decompress(bytes, limit: limit) }) {
            promise(text.count <= limit, "no more is inflated than the limit")
            let again = taken { try Gzip.decompress(Gzip.compress(text), limit: limit) }
            promise(again == text, "what is compressed is inflated again")
          }
          if let text = taken({ try RawDeflate.decompress(bytes, limit: limit) }) {
            promise(text.count <= limit, "no more is inflated than the limit")
          }
        }
      }),
    Target(
      name: "bytes",
      seeds: {
        ["", "00ffAb", "AAEC", "_-8=", "QQ==", "\u{1}\u{2}ab\u{2}\u{0}", "\u{1}\u{0}\u{1}a"].map { Array($0.utf8) }
      },
      run: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let decoded = taken({ try Hex.decode(text) }) {
          promise(Hex.encode(decoded) == text.lowercased(), "hex is written as it was read")
        }
        if let decoded = taken({ try Base64URL.decode(text) }) {
          let digits = text.utf8.filter { $0 != UInt8(ascii: "=") }
          promise(Base64URL.encode(decoded).utf8.elementsEqual(digits), "base64url is written as it was read")
        }
        promise(taken { try Hex.decode(Hex.encode(bytes)) } == Array(bytes), "hex is read as it was written")
        promise(
          taken { try Base64URL.decode(Base64URL.encode(bytes)) } == Array(bytes), "base64url is read as it was written"
        )
        for length in TLV.LengthField.allCases {
          let all = taken { try TLV.all(in: Array(bytes)[...], length: length, limit: 300, maximumCount: 16) }
          guard let all else { continue }
          var writer = ByteWriter()
          for record in all {
            promise(taken { try record.write(to: &writer, length: length) } != nil, "a TLV is written")
          }
          promise(writer.bytes.elementsEqual(bytes), "TLVs are written as they were read")
        }
      }),
    Target(
      name: "text",
      seeds: {
        [
          "00:AA:01:00:00:23", "0001", "00000001-0000-1000-8000-00805f9b34fb", "a\u{202E}b\u{0}\u{1F468}\u{200D}",
          "CredentialLimit", "é",
        ].map { Array($0.utf8) }
      },
      run: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let uuid = BluetoothUUID(text) { promise(BluetoothUUID(uuid.description) == uuid, "a UUID is read again") }
        let clean = PrintableText.clean(text)
        promise(clean.unicodeScalars.count <= PrintableText.limit + 1, "text is cut")
        promise(clean.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }, "text is clean")
        let words = ["Limit", "CredentialLimit", "é", ""]
        if let word = Spelling.nearest(to: text, among: words) { promise(words.contains(word), "a guess is a word") }
      }),
  ]
}
