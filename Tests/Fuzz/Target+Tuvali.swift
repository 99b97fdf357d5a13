import Bytes

@testable import Tuvali

extension Target {
  /// The values of the characteristics, and the QR code.
  static let tuvali = [
    Target(
      name: "invitation",
      seeds: {
        let vectors = try Vectors.read()
        let json = "{\"cid\":\"OVP\\u004dOSIP\", \"pk\" : \"\(vectors.keys.verifierPublicHex)\"}"
        let percent = "openid4vp://CONNECT?key=\(vectors.keys.verifierPublicHex)&x&name=%C3%A9+&y=1"
        return (vectors.uri.cases.flatMap { [$0.v052, $0.v041ToV051] } + [json, percent]).map { Array($0.utf8) }
      },
      run: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        guard let invitation = taken({ try Invitation(reading: text) }) else { return }
        promise(invitation.name.utf8.count <= Limits.nameBytes, "a name fits the advertisement")
        for form in [Invitation.Form.uri, .uriWithColon, .json] {
          let again = taken { try Invitation(reading: invitation.text(as: form)) }
          promise(again == invitation, "an invitation is read as it was written")
        }
        promise(invitation.advertisedServiceData.count <= Limits.nameBytes + 6, "service data fits")
      }),
    Target(
      name: "identify", seeds: { [try Hex.decode(Vectors.read().identify.payloadHex)] },
      run: { bytes in
        guard let identify = taken({ try Identify(reading: Array(bytes)) }) else { return }
        promise(identify.bytes.elementsEqual(bytes.prefix(Identify.size)), "Identify is written as it was read")
      }),
    Target(
      name: "response-size",
      seeds: { try Vectors.read().payloads.map { try Hex.decode($0.responseSizeHex) } + [Array("4194304".utf8)] },
      run: { bytes in
        for encoding in [Dialect.SizeEncoding.bigEndian, .asciiDecimal] {
          let limit = 5 << 20
          guard let size = taken({ try ResponseSize(reading: Array(bytes), as: encoding) }) else { continue }
          if let checked = taken({ try size.checked(limit: limit) }) {
            promise((Limits.smallestFrame...limit).contains(checked), "a size is within its limits")
          }
          let again = taken { try ResponseSize(reading: size.bytes(as: encoding), as: encoding) }
          promise(again == size, "a size is read as it was written")
        }
      }),
    Target(
      name: "transfer-report", seeds: { try Vectors.read().transferReports.map { try Hex.decode($0.frameHex) } },
      run: { bytes in
        guard let report = taken({ try TransferReport(reading: Array(bytes)) }) else { return }
        promise(taken { try TransferReport(reading: report.bytes) } == report, "a report is read as it was written")
      }),
    Target(
      name: "chunk", seeds: { try Vectors.read().exactMultiple.chunksHex.map { try Hex.decode($0) } },
      run: { bytes in
        guard let chunk = taken({ try Chunk(reading: Array(bytes)) }) else { return }
        promise(chunk.bytes.elementsEqual(bytes), "a chunk is written as it was read")
        promise(chunk.payload.count + Chunk.headerBytes == bytes.count, "a chunk is its header and its payload")
      }),
    Target(
      name: "assembler",
      seeds: {
        // MTU 512, first sequence 1, a frame of 1515 bytes; then each chunk after its mark and length.
        let chunks = try Vectors.read().exactMultiple.chunksHex.map { try Hex.decode($0) }
        let size = chunks.reduce(0) { $0 + $1.count - Chunk.headerBytes }
        let head: [UInt8] = [2, 0, 1, 0, UInt8(size >> 8), UInt8(size & 0xFF)]
        let whole: [UInt8] = chunks.flatMap { [1, UInt8($0.count >> 8), UInt8($0.count & 0xFF)] + $0 }
        let made: [UInt8] = (1...3).flatMap { [0, 0, $0, 7, 1, 0xF9] as [UInt8] }
        let small: [UInt8] = [0, 185, 0, 0, 1, 0]
        return [head + whole, head + made, small + made]
      },
      run: assemble),
  ]

  /// MTU, first sequence, size; then chunks: as given, or made from number and length with a valid CRC.
  private static func assemble(_ bytes: UnsafeRawBufferPointer) {
    var script = Script(bytes)
    let layout = ChunkLayout(mtu: script.u16())
    let first = script.flag() ? 1 : 0
    let size = min(Int(script.byte()) << 16 | script.u16(), Limits.chunks * layout.payload)
    var assembler = Assembler(size: size, layout: layout, firstSequence: first)
    while !script.isAtEnd {
      switch script.byte() {
      case 1: _ = assembler.add(script.bytes(script.u16()))
      case 2: assembler.expect(ChunkLayout(mtu: script.u16()))
      default:
        let sequence = script.u16()
        let payload = [UInt8](repeating: script.byte(), count: script.u16() % 600)
        _ = assembler.add(Chunk(sequence: UInt16(sequence), payload: payload[...]).bytes)
      }
      promise(assembler.receivedBytes <= size, "no more is taken than was announced")
      promise((0...assembler.count).contains(assembler.missing), "what is missing can be counted")
    }
    promise(assembler.frame() == nil || assembler.frame()?.count == size, "a frame has the announced size")
    let report = TransferReport(for: assembler)
    promise((report == .success) == assembler.isComplete, "a report tells whether the frame is complete")
    // A session ends where the layout is not usable.
    guard case .missing(let sequences, _) = report, assembler.layout.isUsable else { return }
    promise(!sequences.isEmpty, "a report that is no success names something")
    promise(report.bytes.count <= assembler.layout.maxData, "a report fits in one value")
  }
}
