import Bytes
import Glibc
import Testing

@testable import Tuvali

/// The strict receiver, row by row. Facts: tuvali.md section 5.
@Suite("Reassembly of Tuvali chunks")
struct AssemblerTests {
  static let layout = ChunkLayout(mtu: 100)
  /// Three chunks: 93, 93 and 14 bytes.
  static let frame = (0..<200).map { UInt8($0) }

  static func chunk(_ sequence: Int, _ payload: some Collection<UInt8>, crc: UInt16? = nil) -> [UInt8] {
    var writer = ByteWriter()
    writer.u16be(UInt16(sequence))
    writer.u16be(crc ?? CRC16.kermit(Array(payload)[...]))
    writer.append(payload)
    return writer.bytes
  }

  static func whole(_ sequence: Int) -> [UInt8] {
    chunk(sequence, frame[(sequence - 1) * 93..<min(sequence * 93, 200)])
  }

  static func assembler(with sequences: [Int] = []) -> Assembler {
    var assembler = Assembler(size: frame.count, layout: layout, firstSequence: 1)
    for sequence in sequences { _ = assembler.add(whole(sequence)) }
    return assembler
  }

  /// A chunk that arrives after chunk 1, and its outcome.
  static let rows: [(what: String, chunk: [UInt8], outcome: Assembler.Outcome)] = [
    ("nothing", [], .tooShort),
    ("three bytes", [0, 2, 0], .tooShort),
    ("an empty payload with the right CRC", chunk(2, []), .tooShort),
    ("more than max_data", chunk(2, frame[93..<187]), .wrongLength),
    ("a CRC of something else", chunk(2, frame[93..<186], crc: 1), .badCRC),
    ("sequence 0", chunk(0, frame[93..<186]), .outOfRange),
    ("a sequence over the count", chunk(4, frame[93..<186]), .outOfRange),
    ("the last sequence that fits 16 bits", chunk(0xFFFF, frame[93..<186]), .outOfRange),
    ("a short payload in the middle", chunk(2, frame[93..<185]), .wrongLength),
    ("a last chunk that overruns the frame", chunk(3, frame[185..<200]), .wrongLength),
    ("a last chunk that is short", chunk(3, frame[187..<200]), .wrongLength),
    ("a duplicate", whole(1), .duplicate),
    ("the middle", whole(2), .stored),
    ("the end", whole(3), .stored),
  ]

  @Test("A chunk is stored only if it has the exact length, a valid number and the right CRC", arguments: rows)
  func strict(what: String, chunk: [UInt8], outcome: Assembler.Outcome) {
    var assembler = Self.assembler(with: [1])
    #expect(assembler.add(chunk) == outcome)
    let stored = outcome == .stored
    #expect(assembler.missing == (stored ? 1 : 2))
    #expect(assembler.missingSequences(limit: 9).count == assembler.missing)
    for sequence in 1...3 { _ = assembler.add(Self.whole(sequence)) }
    #expect(assembler.frame() == Self.frame)
  }

  @Test("The recorded bad chunks are dropped, and the good ones after them complete the frame")
  func recorded() throws {
    let payload = try #require(Vectors.shared.payloads.first)
    let cut = try #require(payload.chunks.first { $0.attMtu == 185 })
    let expected: [String: Assembler.Outcome] = [
      "crc_field_flipped": .badCRC, "payload_flipped": .badCRC, "shorter_than_header": .tooShort,
      "empty_payload_valid_crc": .tooShort, "seq_zero": .outOfRange,
    ]
    let rows = Vectors.shared.negative.filter { $0.chunkHex != nil }
    #expect(Set(rows.map(\.case)) == Set(expected.keys))
    var assembler = Assembler(
      size: payload.frameHex.bytes.count, layout: ChunkLayout(mtu: cut.attMtu), firstSequence: 1)
    for row in rows {
      #expect(assembler.add(try #require(row.chunkHex).bytes) == expected[row.case], "\(row.case)")
      #expect(assembler.missing == assembler.count)
    }
    for chunk in cut.chunksHex { #expect(assembler.add(chunk.bytes) == .stored) }
    #expect(assembler.frame() == payload.frameHex.bytes)
  }

  @Test("Other recorded malformed values, such as an Identify of 43 bytes, are refused with their recorded errors")
  func otherMistakes() throws {
    let rows = Vectors.shared.negative.filter { $0.chunkHex == nil }
    #expect(rows.map(\.case) == ["identify_43_bytes", "response_size_zero", "tampered_tag"])
    #expect(throws: WireError.truncated(needed: 32, available: 31)) {
      try Identify(reading: try #require(rows[0].hex).bytes)
    }
    let zero = refusal {
      try ResponseSize(reading: try #require(rows[1].hex).bytes, as: .bigEndian).checked(limit: 1000)
    }
    #expect(zero?.code == "TVV_TRA_001")
    let tampered = refusal {
      try Vectors.shared.keys.session().open(try #require(rows[2].frameHex).bytes, limit: 1000)
    }
    #expect(tampered?.code == "TVV_UNK_003")
  }

  @Test(
    "Chunks in any order give the same frame",
    arguments: [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]])
  func order(sequences: [Int]) {
    var assembler = Self.assembler(with: sequences.dropLast())
    #expect(assembler.frame() == nil)
    #expect(assembler.missingSequences(limit: 9) == sequences.suffix(1))
    _ = assembler.add(Self.whole(sequences[2]))
    #expect(assembler.frame() == Self.frame)
  }

  @Test("A duplicate chunk with different bytes replaces the first one, in any order")
  func overwrite() {
    for sequences in [[1, 2], [2, 1]] {
      var assembler = Self.assembler(with: sequences)
      let other = [UInt8](repeating: 9, count: 93)
      #expect(assembler.add(Self.chunk(1, other)) == .duplicate)
      #expect(assembler.receivedBytes == 186)
      _ = assembler.add(Self.whole(3))
      #expect(assembler.frame() == other + Self.frame[93...])
    }
  }

  @Test("If sequence numbers start at 0, chunk 0 is accepted and a number equal to the chunk count is refused")
  func fromZero() {
    var assembler = Assembler(size: 200, layout: Self.layout, firstSequence: 0)
    #expect(assembler.add(Self.chunk(3, Self.frame[186...])) == .outOfRange)
    #expect(assembler.add(Self.chunk(0, Self.frame[..<93])) == .stored)
    #expect(assembler.add(Self.chunk(2, Self.frame[186...])) == .stored)
    #expect(assembler.missingSequences(limit: 9) == [1])
    #expect(TransferReport(for: assembler).bytes == [0, 0, 1, 0, 1])
  }

  @Test("The list of missing chunks is limited in length")
  func limit() {
    let assembler = Assembler(size: 93 * 1000, layout: Self.layout, firstSequence: 1)
    #expect(assembler.missingSequences(limit: 3) == [1, 2, 3])
    #expect(assembler.missingSequences(limit: 0) == [])
    #expect(assembler.missingSequences(limit: 2000).count == 1000)
  }

  // MARK: A wallet with another view of the MTU

  @Test("A wallet that sends smaller chunks than the MTU allows is recognised from any chunk", arguments: [1, 2, 3, 9])
  func smallerView(first: Int) throws {
    let frame = noise(3001, seed: 1)
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: 67), firstSequence: 1)
    #expect(chunker.count == 51)
    var assembler = Assembler(size: 3001, layout: ChunkLayout(mtu: 517), firstSequence: 1)
    for sequence in Array(first...51) + Array(1..<first) {
      #expect(assembler.add(try #require(chunker.chunk(sequence))) == .stored)
    }
    #expect(assembler.count == 51)
    #expect(assembler.frame() == frame)
  }

  @Test("A chunk that fits two chunk sizes is dropped until another chunk decides")
  func doubtfulView() throws {
    let frame = (0..<300).map { UInt8(truncatingIfNeeded: $0) }
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: 185), firstSequence: 1)
    let chunks = chunker.sequences.compactMap { chunker.chunk($0) }
    // Chunks of 178 and 122 bytes; the second could also be one of 122, 122 and 56.
    var assembler = Assembler(size: 300, layout: ChunkLayout(mtu: 517), firstSequence: 1)
    #expect(assembler.add(chunks[1]) == .outOfRange)
    #expect(assembler.add(chunks[0]) == .stored)
    #expect(assembler.add(chunks[1]) == .stored)
    #expect(assembler.frame() == frame)
  }

  @Test("After the first chunk a smaller one does not change the chunk size")
  func viewIsFixed() {
    var assembler = Self.assembler(with: [2])
    #expect(assembler.add(Self.chunk(1, Self.frame[..<60])) == .wrongLength)
    assembler.expect(ChunkLayout(mtu: 67))
    #expect(assembler.layout == Self.layout)
  }

  @Test("A chunk size with a payload under 60 bytes, too many chunks or a chunk beyond the frame is refused")
  func impossibleView() {
    var assembler = Self.assembler()
    #expect(assembler.add(Self.chunk(1, Self.frame[..<59])) == .wrongLength)
    #expect(assembler.add(Self.chunk(1, Self.frame[..<60])) == .stored)
    var short = Self.assembler()
    #expect(short.add(Self.chunk(6, Self.frame[..<60])) == .outOfRange)
    #expect(short.layout == Self.layout)
    var large = Assembler(size: 60 * Limits.chunks + 1, layout: Self.layout, firstSequence: 1)
    #expect(large.add(Self.chunk(1, Self.frame[..<60])) == .wrongLength)
    #expect(large.add(Self.chunk(1, Self.frame[..<61])) == .stored)
  }

  @Test("The reassembly's memory grows with the received chunks, not with the announced size")
  func memory() {
    var assembler = Assembler(size: 500 * Limits.chunks, layout: ChunkLayout(mtu: 517), firstSequence: 1)
    for _ in 0..<100 { _ = assembler.add(Self.chunk(Limits.chunks - 1000, [UInt8](repeating: 1, count: 505))) }
    #expect(assembler.receivedBytes == 505)
    // For many frames with one chunk each, the kernel provides memory for that chunk alone.
    let before = Self.residentBytes()
    let many = (0..<40).map { _ in
      var assembler = Assembler(size: 500 * Limits.chunks, layout: ChunkLayout(mtu: 517), firstSequence: 1)
      _ = assembler.add(Self.chunk(1, [UInt8](repeating: 1, count: 505)))
      return assembler
    }
    let grown = Self.residentBytes() - before
    #expect(many.count == 40 && grown < 40 * 500 * Limits.chunks / 2, "\(grown) bytes for 40 chunks")
  }

  /// The resident memory of this process in bytes.
  private static func residentBytes() -> Int {
    guard let file = fopen("/proc/self/statm", "r") else { return 0 }
    defer { fclose(file) }
    var (all, resident) = (0, 0)
    return withUnsafeMutablePointer(to: &all) { all in
      withUnsafeMutablePointer(to: &resident) { resident in
        _ = withVaList([all, resident]) { vfscanf(file, "%ld %ld", $0) }
        return resident.pointee * sysconf(Int32(_SC_PAGESIZE))
      }
    }
  }

  @Test("Extreme and negative MTUs give a valid chunk size")
  func layouts() {
    #expect(ChunkLayout(mtu: .min).maxData == 0)
    #expect(ChunkLayout(mtu: 0).maxData == 0)
    #expect(ChunkLayout(mtu: .max).maxData == Limits.writeBytes)
    let nothing = Assembler(size: -1, layout: ChunkLayout(mtu: .min), firstSequence: 1)
    #expect(nothing.missingSequences(limit: 10) == [])
  }
}
