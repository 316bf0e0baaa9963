import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { 'react-router-dom-v5-compat': 'react-router-dom' } },
  define: { 'process.env': {}, global: 'window' },
  build: { outDir: 'dist', sourcemap: false, chunkSizeWarningLimit: 20000, minify: false },
});
