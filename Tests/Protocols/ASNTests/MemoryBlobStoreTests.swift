import ASN
import ASNSupport
import Testing

@Suite("The blob store in memory fulfils the contract of stores")
struct MemoryBlobStoreTests {
  private let contract = StoreContract { MemoryBlobStore() }

  @Test("Blobs are stored verbatim and once, and a purge removes everything that belongs to them")
  func blobs() throws { #expect(try contract.blobs() == []) }

  @Test("A directory has each name once, sorted by octets")
  func links() throws { #expect(try contract.links() == []) }

  @Test("Hidden links are in no directory, and the flags of a removal end with it")
  func removals() throws { #expect(try contract.removals() == []) }

  @Test("A commit that fails undoes all changes since the last one")
  func commit() throws {
    var store = MemoryBlobStore()
    let (one, other) = (
      try StoreContract<MemoryBlobStore>.blob("one"), try StoreContract<MemoryBlobStore>.blob("other")
    )
    try store.apply([.insert(one)])
    try store.commit()
    try store.apply([.insert(other)])
    store.commitFailure = .full
    #expect(throws: StoreError.full) { try store.commit() }
    #expect(store.blob(one.sum) == one && store.blob(other.sum) == nil)
    store.failure = .readOnly
    #expect(throws: StoreError.readOnly) { try store.apply([.insert(other)]) }
    #expect(store.blob(other.sum) == nil)
  }
}
