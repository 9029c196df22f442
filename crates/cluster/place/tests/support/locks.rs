//! The locks of a client that changes what other operations do.

/// Passes the calls of `Locks` on to the field `client`.
macro_rules! pass_on_locks {
    ($type:ty) => {
        impl Locks for $type {
            fn instance(&self) -> Instance {
                self.client.instance()
            }

            fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
                self.client.lock(lock, lease)
            }

            fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
                self.client.renew(lock, lease)
            }

            fn unlock(&self, lock: LockName<'_>) -> Result<()> {
                self.client.unlock(lock)
            }

            fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>> {
                self.client.holder(lock)
            }

            fn fence(&self, instance: &Instance, fenced: Fenced) -> Result<()> {
                self.client.fence(instance, fenced)
            }

            fn unfence(&self, instance: &Instance) -> Result<()> {
                self.client.unfence(instance)
            }
        }
    };
}
