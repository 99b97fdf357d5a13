import ASN
import ASNSupport
import Testing

@Suite("The blob store in memory")
struct MemoryBlobStoreTests {
  private let contract = StoreContract { MemoryBlobStore() }

  @Test("The store in memory holds blobs verbatim and once, and a purge removes everything that belongs to them")
  func blobs() throws { #expect(try contract.blobs() == []) }

  @Test("A directory in the store in memory contains each name once, sorted by bytes")
  func links() throws { #expect(try contract.links() == []) }

  @Test("Hidden links are in no directory, and flags set by a removal end when the removal is removed")
  func removals() throws { #expect(try contract.removals() == []) }

  @Test("A commit that fails undoes all changes since the previous commit")
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
