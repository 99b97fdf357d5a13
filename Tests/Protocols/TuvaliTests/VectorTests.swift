import Bytes
import Common
import Compression
import Crypto
import Testing

@testable import Tuvali

/// Observed results of the originals for the same bytes; facts: tuvali.md section 12.
@Suite("Tuvali vectors")
struct VectorTests {
  let vectors = Vectors.shared

  @Test("The tests cover every section of the Tuvali vector file")
  func sections() throws {
    let read = Set(Vectors.CodingKeys.allCases.map(\.rawValue))
    #expect(try Vectors.sectionNames() == read.union(Vectors.prose))
  }

  @Test("The recorded private keys give the recorded public keys and shared secret")
  func keyAgreement() throws {
    let keys = vectors.keys
    #expect(try keys.verifier().publicKey.bytes == keys.verifierPublicHex.bytes)
    #expect(try keys.wallet().publicKey.bytes == keys.walletPublicHex.bytes)
    let expected = SecretBytes(copying: keys.sharedSecretHex.bytes)
    #expect(try keys.verifier().sharedSecret(with: keys.wallet().publicKey).equals(expected))
    #expect(try keys.wallet().sharedSecret(with: keys.verifier().publicKey).equals(expected))
  }

  @Test(
    "Each direction's key is derived from the salt and the receiver's name, as recorded",
    arguments: SessionKeys.Receiver.allCases)
  func derivation(receiver: SessionKeys.Receiver) throws {
    let keys = vectors.keys
    let expected = receiver == .verifier ? keys.hkdf.keyInfoSkverifierHex : keys.hkdf.keyInfoSkwalletHex
    let key = try HKDF.sha256(
      secret: keys.sharedSecretHex.bytes, salt: Array(keys.hkdf.saltAscii.utf8), info: Array(receiver.rawValue.utf8),
      count: 32)
    #expect(key.equals(SecretBytes(copying: expected.bytes)))

    let text = Array("either side derives it".utf8)
    let mine = try keys.session(receiver)
    let theirs = try SessionKeys(
      own: keys.verifier(), peer: keys.wallet().publicKey, nonce: keys.nonceHex.bytes, receiver: receiver)
    let sealed = try AESGCM.seal(try Gzip.compress(text), key: key, nonce: keys.nonceHex.bytes)
    #expect(try mine.seal(text) == sealed)
    #expect(try theirs.open(sealed, limit: 100) == text)
  }

  @Test("The recorded Identify contains the nonce and the wallet's key")
  func identify() throws {
    let expected = vectors.identify.payloadHex.bytes
    #expect(vectors.identify.length == Identify.size)
    let wallet = try vectors.keys.wallet().publicKey
    let identify = Identify(nonce: vectors.keys.nonceHex.bytes, walletKey: wallet)
    #expect(identify.bytes == expected)
    #expect(try Identify(reading: expected) == identify)
  }

  @Test("Both recorded spellings of the invitation URI are written and read", arguments: Vectors.shared.uri.cases)
  func uri(row: Vectors.URISection.Row) throws {
    let key = try X25519.PublicKey(vectors.keys.verifierPublicHex.bytes)
    let invitation = try Invitation(name: row.name, key: key)
    #expect(invitation.text(as: .uri) == row.v052)
    #expect(invitation.text(as: .uriWithColon) == row.v041ToV051)
    #expect(try Invitation(reading: row.v052) == invitation)
    #expect(try Invitation(reading: row.v041ToV051) == invitation)
    #expect(invitation.advertisedServiceData == row.expectedAdvServiceDataHex.bytes)
  }

  @Test("The Android demo's invitation URI is read, and written unchanged")
  func repositorySample() throws {
    let sample = vectors.uri.repoSample
    let invitation = try Invitation(reading: sample.uri)
    #expect(invitation.name == "OVPMOSIP")
    #expect(invitation.advertisedServiceData == sample.expectedAdvServiceDataHex.bytes)
    #expect(invitation.text(as: .uriWithColon) == sample.uri)
  }

  @Test("The service data contain the key split over both payloads, and a name fits or is refused")
  func advertising() throws {
    #expect(vectors.advertising.maxNameBytes == Limits.nameBytes)
    let key = try X25519.PublicKey(vectors.keys.verifierPublicHex.bytes)
    for row in vectors.advertising.cases {
      guard row.advFits31 else {
        #expect(throws: TuvaliError.self) { try Invitation(name: row.name, key: key) }
        continue
      }
      let invitation = try Invitation(name: row.name, key: key)
      #expect(invitation.advertisedServiceData == row.serviceDataAdvHex.bytes)
      #expect(invitation.scanResponseServiceData == row.serviceDataScanResponseHex.bytes)
    }
  }

  @Test(
    "Each dialect advertises the UUIDs of its recorded profile",
    arguments: [("tuvali_0_5", [Dialect.v05]), ("tuvali_0_2_4_to_0_4_9", [.v04, .v03])])
  func profiles(name: String, dialects: [Dialect]) throws {
    let profile = try #require(vectors.advertising.profiles[name])
    for dialect in dialects {
      #expect(dialect.service.advertisedBytes == profile.advUuid16.bytes.reversed())
      #expect(dialect.scanResponse.advertisedBytes == profile.scanResponseUuid16.bytes.reversed())
    }
  }

  @Test("Each MTU gives the sizes of the recorded table, and is accepted from 67 on", arguments: Vectors.shared.mtu)
  func mtu(row: Vectors.MTURow) {
    let layout = ChunkLayout(mtu: row.attMtu)
    #expect(layout.maxData == row.maxData)
    #expect(layout.payload == row.chunkPayload)
    #expect(layout.reportPage == row.reportPageSize)
    #expect(layout.isUsable == row.androidVerifierAccepts)
    #expect(layout.isUsable == row.iosWalletAccepts)
  }

  @Test("The chunk checksum is CRC-16/KERMIT and not CCITT-FALSE", arguments: Vectors.shared.crc)
  func crc(row: Vectors.CRCRow) {
    let crc = CRC16.kermit(row.dataHex.bytes)
    #expect(Hex.encode([UInt8(crc >> 8), UInt8(crc & 0xFF)]) == row.kermitHex)
    #expect(row.kermitHex != row.notCcittFalseHex)
  }

  @Test(
    "A recorded frame is decrypted with the right key only, and a sealed frame is decrypted again",
    arguments: Vectors.shared.payloads)
  func payload(row: Vectors.Payload) throws {
    let keys = try vectors.keys.session()
    #expect(try keys.open(row.frameHex.bytes, limit: row.text.count) == row.text)
    #expect(try Gzip.decompress(row.gzipHex.bytes, limit: row.text.count) == row.text)
    #expect(try keys.open(try keys.seal(row.text), limit: row.text.count) == row.text)

    #expect(throws: TuvaliError.self) { try keys.open(row.frameHex.bytes, limit: row.text.count - 1) }
    let wrong = try vectors.keys.session(.wallet)
    #expect(throws: TuvaliError.self) { try wrong.open(row.frameHex.bytes, limit: row.text.count) }

    let (right, other) = (vectors.keys.hkdf.keyInfoSkverifierHex, vectors.keys.hkdf.keyInfoSkwalletHex)
    let sealed = { (key: [UInt8]) in
      try AESGCM.seal(row.gzipHex.bytes, key: SecretBytes(copying: key), nonce: vectors.keys.nonceHex.bytes)
    }
    #expect(try sealed(right.bytes) == row.frameHex.bytes)
    #expect(try sealed(other.bytes).starts(with: row.wrongKeyFrameHexPrefix.bytes))
  }

  @Test(
    "A frame is split into the recorded chunks at each MTU, and reassembled", arguments: Vectors.shared.payloads)
  func chunks(row: Vectors.Payload) throws {
    let frame = row.frameHex.bytes
    #expect(ResponseSize(frame.count).bytes(as: .bigEndian) == row.responseSizeHex.bytes)
    #expect(try ResponseSize(reading: row.responseSizeHex.bytes, as: .bigEndian).checked(limit: 1 << 20) == frame.count)
    for cut in row.chunks {
      let layout = ChunkLayout(mtu: cut.attMtu)
      let recorded = cut.chunksHex.map(\.bytes)
      #expect(layout.maxData == cut.maxData)
      #expect(layout.count(forFrame: frame.count) == cut.count)
      #expect(recorded.last?.count == cut.lastLen)
      #expect(try allChunks(of: frame, layout, first: 1) == recorded)
      #expect(assembled(recorded, size: frame.count, layout, first: 1) == frame)
      #expect(assembled(recorded.reversed(), size: frame.count, layout, first: 1) == frame)
    }
  }

  @Test("A frame whose length is a multiple of the payload size has no short and no empty chunk")
  func exactMultiple() throws {
    let row = vectors.exactMultiple
    let layout = ChunkLayout(mtu: row.attMtu)
    let recorded = row.chunksHex.map(\.bytes)
    #expect(try allChunks(of: row.frameHex.bytes, layout, first: 1) == recorded)
    #expect(assembled(recorded, size: row.frameHex.bytes.count, layout, first: 1) == row.frameHex.bytes)
  }

  @Test("Each Tuvali dialect has its own encoding of sizes and chunk numbers")
  func dialects() throws {
    let frame = try #require(vectors.payloads.first).frameHex.bytes
    #expect(vectors.dialects.count == Dialect.Name.allCases.count)
    for (row, name) in zip(vectors.dialects, Dialect.Name.allCases) {
      let dialect = Dialect.named(name)
      #expect(row.versions.hasPrefix(name.rawValue))
      #expect(dialect.name == name)
      #expect(dialect.service == BluetoothUUID(row.serviceUuid16))
      #expect(dialect.firstSequence == row.firstSequence)
      #expect(ResponseSize(frame.count).bytes(as: dialect.sizeEncoding) == row.responseSizeHex.bytes)
      #expect(
        try ResponseSize(reading: row.responseSizeHex.bytes, as: dialect.sizeEncoding).checked(limit: 1000)
          == frame.count)
      let chunks = try allChunks(of: frame, ChunkLayout(mtu: 185), first: dialect.firstSequence)
      #expect(chunks.first == row.firstChunkAttMtu185Hex.bytes)
      #expect(
        assembled(chunks, size: frame.count, ChunkLayout(mtu: 185), first: dialect.firstSequence) == frame)
    }
  }

  @Test("A Tuvali report is encoded and decoded as recorded", arguments: Vectors.shared.transferReports)
  func report(row: Vectors.ReportRow) throws {
    let report: TransferReport =
      row.missingTotal == 0 ? .success : .missing(row.sequencesOnWire, totalPages: row.totalPages)
    #expect(report.bytes == row.frameHex.bytes)
    #expect(try TransferReport(reading: row.frameHex.bytes) == report)
  }

  @Test("A report about a frame contains the first page of missing chunks", arguments: Vectors.shared.transferReports)
  func reportOnFrame(row: Vectors.ReportRow) throws {
    let layout = ChunkLayout(mtu: row.attMtu)
    #expect(layout.reportPage == row.pageSize)
    // The row lists one page of missing sequences; further ones follow its last.
    let last = row.sequencesOnWire.last ?? 0
    let beyond = (0..<row.missingTotal - row.sequencesOnWire.count).map { last + 1 + $0 }
    let missing = Set(row.sequencesOnWire + beyond)
    let frame = [UInt8](repeating: 7, count: (missing.max() ?? 4) * layout.payload + 1)
    var assembler = Assembler(size: frame.count, layout: layout, firstSequence: 1)
    let chunker = try Chunker(frame: frame, layout: layout, firstSequence: 1)
    for sequence in chunker.sequences where !missing.contains(sequence) {
      #expect(assembler.add(try #require(chunker.chunk(sequence))) == .stored)
    }
    #expect(TransferReport(for: assembler).bytes == row.frameHex.bytes)
  }

  @Test("A report with an empty list or an odd byte is read; one that is short or of unknown type is refused")
  func reportEdges() throws {
    let rows = vectors.transferReportRxEdge.map(\.frameHex.bytes)
    #expect(rows.count == 4)
    #expect(try TransferReport(reading: rows[0]) == .missing([], totalPages: 0))
    #expect(try TransferReport(reading: rows[1]) == .missing([1], totalPages: 1))
    #expect(throws: WireError.truncated(needed: 2, available: 1)) { try TransferReport(reading: rows[2]) }
    #expect(throws: WireError.badValue("type")) { try TransferReport(reading: rows[3]) }
  }

  private func allChunks(of frame: [UInt8], _ layout: ChunkLayout, first: Int) throws -> [[UInt8]] {
    let chunker = try Chunker(frame: frame, layout: layout, firstSequence: first)
    #expect(chunker.chunk(first - 1) == nil)
    #expect(chunker.chunk(first + chunker.count) == nil)
    return chunker.sequences.compactMap { chunker.chunk($0) }
  }

  private func assembled(_ chunks: [[UInt8]], size: Int, _ layout: ChunkLayout, first: Int) -> [UInt8]? {
    var assembler = Assembler(size: size, layout: layout, firstSequence: first)
    for chunk in chunks {
      #expect(assembler.frame() == nil)
      #expect(assembler.add(chunk) == .stored)
    }
    #expect(assembler.isComplete && assembler.missing == 0 && assembler.receivedBytes == size)
    return assembler.frame()
  }
}
